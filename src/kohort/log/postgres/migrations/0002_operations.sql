-- What people who look after a cluster need: all listeners of a node, why a leader changed, moves by hand.
ALTER TABLE cluster ADD COLUMN balance bigint NOT NULL DEFAULT 0;       -- the version at which balance was asked for without delay
ALTER TABLE sessions
  ADD COLUMN listeners jsonb NOT NULL DEFAULT '{}',                     -- name → [host, port], as advertised
  ADD COLUMN release text NOT NULL DEFAULT '',
  ADD COLUMN ended text CHECK (ended IN ('lease', 'left', 'forgotten')),
  ADD COLUMN ended_at timestamptz;
ALTER TABLE partitions
  ADD COLUMN assigned int,                                              -- the node that was chosen by hand; until that node goes
  ADD COLUMN reason text,                                               -- of the last change of leader
  ADD COLUMN came_from int,                                             -- the node that led before
  ADD COLUMN silent_ms bigint,                                          -- since the last sign of that node
  ADD COLUMN changed_at timestamptz;
