-- What people must hear of: the database was restored, or failed over to a standby that was behind.
ALTER TABLE cluster ADD COLUMN data_lost_at timestamptz;                 -- when a node last noticed it
