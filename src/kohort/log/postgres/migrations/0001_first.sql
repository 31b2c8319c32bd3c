-- The tables of a cluster (cluster 1). The table of migrations itself is made before the first of them.
CREATE TABLE cluster (
  one              boolean PRIMARY KEY DEFAULT true CHECK (one),   -- exactly one row
  cluster_id       text   NOT NULL,
  schema_version   int    NOT NULL, oldest_code int NOT NULL,   -- last migration; code that knows less refuses to start
  version          bigint NOT NULL DEFAULT 0,-- +1 in every transaction that changes catalog, sessions or placement
  next_producer_id bigint NOT NULL DEFAULT 0
);
CREATE TABLE sessions (                      -- one row per life of a node; `session` is the incarnation and never comes again
  session    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  node_id    int  NOT NULL CHECK (node_id >= 0),
  host       text NOT NULL, port int NOT NULL, rack text,      -- advertised
  code       int  NOT NULL, started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  state      text NOT NULL DEFAULT 'alive' CHECK (state IN ('alive', 'leaving', 'dead')),
  ttl_ms     int  NOT NULL, renewals bigint NOT NULL DEFAULT 0,  -- the latter is what watchers watch
  expires_at timestamptz NOT NULL,           -- by the database's clock, nobody else's
  version    bigint NOT NULL
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX sessions_living ON sessions (node_id) WHERE state <> 'dead';
CREATE TABLE topics (
  topic_id uuid PRIMARY KEY, name text NOT NULL, collision_key text NOT NULL,
  partitions int NOT NULL CHECK (partitions > 0), configs jsonb NOT NULL DEFAULT '{}',
  storage text NOT NULL DEFAULT 'rows', deleted boolean NOT NULL DEFAULT false, version bigint NOT NULL
);
CREATE UNIQUE INDEX topics_living ON topics (collision_key) WHERE NOT deleted;   -- names and near-names at once
CREATE TABLE broker_configs (resource text PRIMARY KEY, configs jsonb NOT NULL, version bigint NOT NULL);
CREATE TABLE partitions (
  partition_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  topic_id     uuid NOT NULL REFERENCES topics, partition int NOT NULL,
  leader       bigint,                        -- a session; NULL or a dead one: orphan
  leader_epoch int    NOT NULL DEFAULT -1,    -- +1 with every change of leader, also to the same node
  served_epoch int    NOT NULL DEFAULT -1,    -- the leader has loaded and answers
  start_offset bigint NOT NULL DEFAULT 0, cleaned_to bigint NOT NULL DEFAULT 0,
  version      bigint NOT NULL,
  UNIQUE (topic_id, partition)
) WITH (fillfactor = 70);                     -- no index on leader: see trap 5
CREATE INDEX partitions_version ON partitions (version);
CREATE TABLE leader_epochs (                  -- what OffsetForLeaderEpoch answers from
  partition_id bigint NOT NULL, leader_epoch int NOT NULL, start_offset bigint NOT NULL, PRIMARY KEY (partition_id, leader_epoch)
);
CREATE TABLE producers (partition_id bigint PRIMARY KEY, up_to bigint NOT NULL, state bytea NOT NULL);  -- Kafka's .snapshot bytes
CREATE TABLE batches (
  partition_id  bigint NOT NULL, base_offset bigint NOT NULL, last_offset bigint NOT NULL,
  max_timestamp bigint NOT NULL,
  top_timestamp bigint NOT NULL,              -- largest max_timestamp up to here: never falls, so time can be searched by halving
  leader_epoch  int    NOT NULL, size int NOT NULL,
  records       bytea  NOT NULL,              -- one record batch, byte for byte as a Fetch returns it
  PRIMARY KEY (partition_id, base_offset)
) WITH (toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_insert_scale_factor = 0.2,
        toast.autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE batches ALTER COLUMN records SET STORAGE EXTERNAL;
