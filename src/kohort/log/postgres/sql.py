"""Every statement that Kohort sends to PostgreSQL, nowhere else (cluster 1 to 5).

Table names have no schema: the search path of a connection says which cluster is meant. Where several rows
are locked, it is in the order of ``partition_id``, and the row of ``cluster`` before all others.
"""

# ruff: noqa: E501 - statements keep the lines of the contract

# --- schema -----------------------------------------------------------------------------------------------

SCHEMA_EXISTS = "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)"
SCHEMA_IS_USABLE = "SELECT has_schema_privilege($1, 'USAGE')"
CREATE_SCHEMA = "CREATE SCHEMA IF NOT EXISTS {schema}"
CLUSTERS = """
SELECT n.nspname FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = 'sessions'
JOIN pg_class b ON b.relnamespace = n.oid AND b.relname = 'batches' ORDER BY 1 LIMIT 20
"""
TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = $1 ORDER BY tablename"
CREATE_MIGRATIONS = """
CREATE TABLE IF NOT EXISTS migrations
  (number int PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())
"""
BEGIN_MIGRATION = "INSERT INTO migrations (number, name) VALUES ($1, $2)"
LAST_MIGRATION = "SELECT coalesce(max(number), 0) FROM migrations"
CREATE_CLUSTER = "INSERT INTO cluster (cluster_id, schema_version, oldest_code) VALUES ($1, $2, $3)"
SET_SCHEMA_VERSION = "UPDATE cluster SET schema_version = $1"
CLUSTER = "SELECT cluster_id, schema_version, oldest_code FROM cluster"
MISSING_RIGHTS = """
SELECT tablename, privilege
FROM pg_tables, unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS privilege
WHERE schemaname = $1 AND NOT has_table_privilege(format('%I.%I', schemaname, tablename), privilege)
ORDER BY 1, 2
"""
WHO_AM_I = "SELECT current_user::text"

# --- sessions and placement (cluster 2) -------------------------------------------------------------------

NEXT_VERSION = "UPDATE cluster SET version = version + 1 RETURNING version"
NOTIFY = "SELECT pg_notify($1, $2)"
LIVING_NODE_IDS = "SELECT node_id FROM sessions WHERE state <> 'dead'"
LIVING_SESSION_OF = """
SELECT session, renewals, ttl_ms, floor(extract(epoch FROM expires_at - clock_timestamp()) * 1000)::bigint
FROM sessions WHERE node_id = $1 AND state <> 'dead'
"""
REGISTER = """
INSERT INTO sessions (node_id, host, port, rack, code, ttl_ms, expires_at, version, listeners, release)
VALUES ($1, $2, $3, $4, $5, $6::int, clock_timestamp() + $6::int * interval '1 ms', $7, $8::text::jsonb, $9)
RETURNING session
"""
RENEW_AND_POLL = """
WITH mine AS (
  UPDATE sessions SET renewals = renewals + 1, expires_at = clock_timestamp() + ttl_ms * interval '1 ms'
  WHERE session = $1 AND state <> 'dead' RETURNING renewals)
SELECT (SELECT renewals FROM mine) AS mine, (SELECT version FROM cluster) AS version,
       s.session, s.node_id, s.host, s.port, s.rack, s.state, s.ttl_ms, s.renewals,
       floor(extract(epoch FROM s.expires_at - clock_timestamp()) * 1000)::bigint AS rest_ms
FROM (SELECT 1) AS always LEFT JOIN sessions s ON s.state <> 'dead'
"""
BURY = """
UPDATE sessions SET state = 'dead', version = $3, ended = $4, ended_at = clock_timestamp()
 WHERE session = $1 AND renewals = $2 AND state <> 'dead' AND expires_at < clock_timestamp() RETURNING session
"""
LEAVE = "UPDATE sessions SET state = 'leaving', version = $2 WHERE session = $1 AND state = 'alive'"
END_SESSION = """
UPDATE sessions SET state = 'dead', version = $2, ended = 'left', ended_at = clock_timestamp()
 WHERE session = $1 AND state <> 'dead'
"""
AM_I_ALIVE = "SELECT true FROM sessions WHERE session = $1 AND state = 'alive' FOR SHARE"
AM_I_NOT_DEAD = "SELECT true FROM sessions WHERE session = $1 AND state <> 'dead' FOR SHARE"
TAKE = """
UPDATE partitions SET leader = $1, leader_epoch = leader_epoch + 1, version = $3, changed_at = clock_timestamp(),
       assigned = CASE WHEN assigned = (SELECT node_id FROM sessions WHERE session = $1) THEN assigned END,
       (came_from, reason, silent_ms) = (
         SELECT max(s.node_id), coalesce(max(CASE s.ended WHEN 'left' THEN 'handover' WHEN 'forgotten' THEN 'forgotten' ELSE 'death' END), 'new'),
                max(greatest(0, extract(epoch FROM clock_timestamp() - CASE WHEN s.ended = 'left' THEN s.ended_at
                                        ELSE s.expires_at - s.ttl_ms * interval '1 ms' END) * 1000))::bigint
         FROM sessions s WHERE s.session = partitions.leader)
 WHERE partition_id IN (SELECT partition_id FROM partitions p WHERE partition_id = ANY($2::bigint[])
                          AND (leader IS NULL OR leader NOT IN (SELECT session FROM sessions WHERE state <> 'dead'))
                        ORDER BY partition_id FOR UPDATE)
RETURNING partition_id, leader_epoch
"""
TAKE_AGAIN = """
UPDATE partitions SET leader_epoch = greatest(leader_epoch, ($4::int[])[array_position($2::bigint[], partition_id)]) + 1,
       version = $3, changed_at = clock_timestamp(), reason = 'again', silent_ms = 0,
       came_from = (SELECT node_id FROM sessions WHERE session = $1)
 WHERE partition_id IN (SELECT partition_id FROM partitions p WHERE partition_id = ANY($2::bigint[]) AND leader = $1
                        ORDER BY partition_id FOR UPDATE)
RETURNING partition_id, leader_epoch
"""
NOTE_DATA_LOSS = "UPDATE cluster SET data_lost_at = clock_timestamp()"
NOTE_EPOCHS = """
INSERT INTO leader_epochs (partition_id, leader_epoch, start_offset)
SELECT p.partition_id, p.leader_epoch, greatest(p.start_offset, coalesce((SELECT b.last_offset + 1 FROM batches b
         WHERE b.partition_id = p.partition_id ORDER BY b.base_offset DESC LIMIT 1), 0))
FROM partitions p WHERE p.partition_id = ANY($1::bigint[]) AND p.leader = $2
ON CONFLICT DO NOTHING
"""
HAND_OVER = """
UPDATE partitions p SET leader = $3, leader_epoch = p.leader_epoch + 1, version = $4, changed_at = clock_timestamp(),
       came_from = giver.node_id, silent_ms = 0,
       reason = CASE WHEN giver.state = 'leaving' THEN 'handover' WHEN p.assigned = receiver.node_id THEN 'move' ELSE 'balance' END,
       assigned = CASE WHEN p.assigned = receiver.node_id THEN p.assigned END
FROM sessions giver, sessions receiver
 WHERE p.leader = $1 AND p.partition_id = ANY($2::bigint[])
   AND giver.session = $1 AND receiver.session = $3 AND receiver.state = 'alive'
RETURNING p.partition_id, p.leader_epoch
"""
PARTITIONS_SINCE = """
SELECT partition_id, topic_id, partition, leader, leader_epoch, served_epoch, assigned, reason, came_from, silent_ms
FROM partitions WHERE version > $1
"""
SERVE = """
UPDATE partitions SET served_epoch = leader_epoch, version = $3
 WHERE partition_id = ANY($2::bigint[]) AND leader = $1 AND served_epoch < leader_epoch
"""

# --- for administrators (cluster 8) -----------------------------------------------------------------------

OVERVIEW = """
SELECT current_setting('server_version'), current_setting('synchronous_standby_names') <> '',
       (SELECT coalesce(extract(epoch FROM max(clock_timestamp() - xact_start)), 0)::float8 FROM pg_stat_activity
         WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()),
       (SELECT count(*) FROM topics WHERE NOT deleted), count(*),
       count(*) FILTER (WHERE s.session IS NULL), count(*) FILTER (WHERE s.session IS NOT NULL AND p.served_epoch < p.leader_epoch),
       count(*) FILTER (WHERE s.state = 'leaving' OR p.assigned <> s.node_id AND EXISTS (
         SELECT 1 FROM sessions w WHERE w.node_id = p.assigned AND w.state = 'alive')),
       count(*) FILTER (WHERE p.changed_at > clock_timestamp() - interval '1 hour' AND p.reason <> 'new'),
       (SELECT data_lost_at FROM cluster)
FROM partitions p JOIN topics t ON t.topic_id = p.topic_id AND NOT t.deleted
LEFT JOIN sessions s ON s.session = p.leader AND s.state <> 'dead'
"""
NODES = """
SELECT s.node_id, s.session, s.host, s.port, s.listeners::text, s.state, s.ended,
       greatest(0, extract(epoch FROM s.expires_at - clock_timestamp()) * 1000)::int, s.started_at, s.release, s.code,
       count(t.topic_id)::int, count(t.topic_id) FILTER (WHERE p.served_epoch < p.leader_epoch)::int,
       count(t.topic_id) FILTER (WHERE t.name = '__consumer_offsets')::int,
       count(t.topic_id) FILTER (WHERE t.name NOT IN ('__consumer_offsets', '__kohort_journal'))::int,
       count(t.topic_id) FILTER (WHERE p.assigned = s.node_id)::int
FROM sessions s LEFT JOIN partitions p ON p.leader = s.session
LEFT JOIN topics t ON t.topic_id = p.topic_id AND NOT t.deleted
WHERE s.state <> 'dead' OR NOT EXISTS (SELECT 1 FROM sessions o WHERE o.node_id = s.node_id AND o.session > s.session)
GROUP BY s.session ORDER BY s.node_id
"""
DRAIN = "UPDATE sessions SET state = 'leaving', version = $2 WHERE node_id = $1 AND state = 'alive' RETURNING session"
PLACES = """
SELECT t.name, p.partition, s.node_id, p.leader_epoch, p.served_epoch >= p.leader_epoch, p.assigned
FROM partitions p JOIN topics t ON t.topic_id = p.topic_id AND NOT t.deleted
LEFT JOIN sessions s ON s.session = p.leader AND s.state <> 'dead'
WHERE t.name = ANY($1::text[]) ORDER BY t.name, p.partition
"""
MOVE = """
UPDATE partitions p SET assigned = $2, version = $1 FROM topics t, unnest($3::text[], $4::int[]) AS w (name, partition)
WHERE t.topic_id = p.topic_id AND NOT t.deleted AND t.name = w.name AND p.partition = w.partition
"""
FORGET_MOVES = "UPDATE partitions SET assigned = NULL, version = $1 WHERE assigned IS NOT NULL"
BALANCE_NOW = "UPDATE cluster SET balance = version"
FORGET_SESSIONS = """
DELETE FROM sessions s WHERE s.state = 'dead' AND coalesce(s.ended_at, s.expires_at) < clock_timestamp() - $1::int * interval '1 ms'
  AND NOT EXISTS (SELECT 1 FROM partitions p WHERE p.leader = s.session)
"""

# --- appending (cluster 3) --------------------------------------------------------------------------------

APPEND_ONE = """
WITH led AS (
  SELECT p.partition_id, p.start_offset FROM partitions p
  WHERE p.partition_id = $2 AND p.leader = $1 AND p.leader_epoch = $3 FOR NO KEY UPDATE OF p
), fits AS (
  SELECT l.partition_id, l.start_offset FROM led l
  WHERE $4::bigint = greatest(l.start_offset, coalesce((SELECT b.last_offset + 1 FROM batches b
          WHERE b.partition_id = l.partition_id ORDER BY b.base_offset DESC LIMIT 1), 0))
), stored AS (
  INSERT INTO batches (partition_id, base_offset, last_offset, max_timestamp, top_timestamp, leader_epoch, size, records)
  SELECT f.partition_id, $4::bigint, $5::bigint, $6::bigint, $7::bigint, $3::int, length($8::bytea), $8::bytea FROM fits f
)
SELECT partition_id, start_offset FROM fits
"""
APPEND_MANY = """
WITH wanted AS (
  SELECT * FROM unnest($2::bigint[], $3::int[], $4::bigint[]) AS w (partition_id, leader_epoch, base_offset)
), led AS (
  SELECT p.partition_id, p.start_offset, w.base_offset
  FROM wanted w JOIN partitions p ON p.partition_id = w.partition_id AND p.leader = $1 AND p.leader_epoch = w.leader_epoch
  ORDER BY p.partition_id FOR NO KEY UPDATE OF p
), fits AS (
  SELECT l.partition_id, l.start_offset FROM led l
  WHERE l.base_offset = greatest(l.start_offset, coalesce((SELECT b.last_offset + 1 FROM batches b
          WHERE b.partition_id = l.partition_id ORDER BY b.base_offset DESC LIMIT 1), 0))
), stored AS (
  INSERT INTO batches (partition_id, base_offset, last_offset, max_timestamp, top_timestamp, leader_epoch, size, records)
  SELECT n.partition_id, n.base_offset, n.last_offset, n.max_timestamp, n.top_timestamp, n.leader_epoch, length(n.records), n.records
  FROM unnest($5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::int[], $11::bytea[])
    AS n (partition_id, base_offset, last_offset, max_timestamp, top_timestamp, leader_epoch, records)
  JOIN fits USING (partition_id)
)
SELECT partition_id, start_offset FROM fits
"""
FIND_ENDS = """
SELECT p.partition_id, p.leader, p.leader_epoch, greatest(p.start_offset, coalesce((SELECT b.last_offset + 1
         FROM batches b WHERE b.partition_id = p.partition_id ORDER BY b.base_offset DESC LIMIT 1), 0)) AS end_offset
FROM partitions p WHERE p.leader = $1 OR p.partition_id = ANY($2::bigint[])
"""

# --- reading (cluster 4) ----------------------------------------------------------------------------------

OPEN = """
SELECT w.number, p.partition_id, p.leader_epoch, p.start_offset, p.cleaned_to,
       b.last_offset, b.top_timestamp, s.up_to, s.state
FROM unnest($2::uuid[], $3::int[]) WITH ORDINALITY AS w (topic_id, partition, number)
JOIN partitions p ON p.topic_id = w.topic_id AND p.partition = w.partition AND p.leader = $1
LEFT JOIN LATERAL (SELECT last_offset, top_timestamp FROM batches WHERE partition_id = p.partition_id
                   ORDER BY base_offset DESC LIMIT 1) b ON true
LEFT JOIN producers s ON s.partition_id = p.partition_id
"""
EPOCHS = """
SELECT partition_id, leader_epoch, start_offset FROM leader_epochs WHERE partition_id = ANY($1::bigint[])
ORDER BY partition_id, leader_epoch
"""
HEADERS_SINCE = """
SELECT w.partition_id, b.header FROM unnest($1::bigint[], $2::bigint[]) AS w (partition_id, up_to)
CROSS JOIN LATERAL (SELECT base_offset, substring(records, 1, 61) AS header FROM batches
                    WHERE partition_id = w.partition_id AND base_offset >= w.up_to) b
ORDER BY w.partition_id, b.base_offset
"""
PAGE_SIZES = """
SELECT base_offset, last_offset, size FROM batches
 WHERE partition_id = $1 AND base_offset < $3 AND last_offset >= $2 AND base_offset >= coalesce(
   (SELECT base_offset FROM batches WHERE partition_id = $1 AND base_offset <= $2 ORDER BY base_offset DESC LIMIT 1), $2)
 ORDER BY base_offset LIMIT $4
"""
READ_PAGE = """
SELECT base_offset, last_offset, records FROM batches
 WHERE partition_id = $1 AND base_offset BETWEEN $2 AND $3 ORDER BY base_offset
"""
FIND_END = """
SELECT p.leader, p.leader_epoch, p.start_offset, greatest(p.start_offset, coalesce((SELECT b.last_offset + 1
         FROM batches b WHERE b.partition_id = p.partition_id ORDER BY b.base_offset DESC LIMIT 1), 0)) AS end_offset
FROM partitions p WHERE p.partition_id = $1
"""
TOP_AT = """
SELECT base_offset, last_offset, max_timestamp, top_timestamp FROM batches
 WHERE partition_id = $1 AND base_offset >= $2 AND base_offset < $3 ORDER BY base_offset LIMIT 1
"""
TOP_BEFORE = """
SELECT base_offset, last_offset, max_timestamp, top_timestamp FROM batches
 WHERE partition_id = $1 AND base_offset < $2 ORDER BY base_offset DESC LIMIT 1
"""
FIRST_NOT_OLDER = """
SELECT base_offset, records FROM batches
 WHERE partition_id = $1 AND base_offset >= $2 AND base_offset < $3 AND last_offset >= $4 AND max_timestamp >= $5
 ORDER BY base_offset LIMIT 1
"""
YOUNGEST = """
(SELECT base_offset, records FROM batches
  WHERE partition_id = $1 AND base_offset < $2 AND base_offset >= $3 ORDER BY max_timestamp DESC, base_offset LIMIT 1)
UNION ALL
(SELECT base_offset, records FROM batches
  WHERE partition_id = $1 AND base_offset < $3 AND last_offset >= $3 AND base_offset < $2 ORDER BY base_offset DESC LIMIT 1)
"""
SIZE_AND_COUNT = """
SELECT coalesce(sum(size), 0)::bigint AS size, count(*)::bigint AS count FROM batches
 WHERE partition_id = $1 AND base_offset >= $2
"""

# --- maintenance (cluster 4) ------------------------------------------------------------------------------

MOVE_START = """
UPDATE partitions SET start_offset = $4
 WHERE partition_id = $2 AND leader = $1 AND leader_epoch = $3 AND start_offset < $4 RETURNING start_offset
"""
DELETE_BELOW_START = """
DELETE FROM batches WHERE (partition_id, base_offset) IN (
  SELECT b.partition_id, b.base_offset FROM batches b JOIN partitions p USING (partition_id)
   WHERE b.partition_id = $1 AND b.last_offset < p.start_offset AND b.base_offset < p.start_offset
   ORDER BY b.base_offset LIMIT $2)
"""
DELETE_EPOCHS_BELOW = """
DELETE FROM leader_epochs e WHERE e.partition_id = $1 AND e.leader_epoch < (
  SELECT max(o.leader_epoch) FROM leader_epochs o WHERE o.partition_id = $1 AND o.start_offset <= $2)
"""
OLDEST_BATCHES = """
SELECT last_offset, max_timestamp, top_timestamp, size FROM batches
 WHERE partition_id = $1 AND last_offset >= $2 AND base_offset >= coalesce(
   (SELECT base_offset FROM batches WHERE partition_id = $1 AND base_offset <= $2 ORDER BY base_offset DESC LIMIT 1), $2)
   AND last_offset < $3 ORDER BY base_offset LIMIT $4
"""
SAVE_PRODUCERS = """
INSERT INTO producers (partition_id, up_to, state)
SELECT $2, $4, $5 FROM partitions WHERE partition_id = $2 AND leader = $1 AND leader_epoch = $3
ON CONFLICT (partition_id) DO UPDATE SET up_to = excluded.up_to, state = excluded.state
"""
LOCK_LED = "SELECT start_offset FROM partitions WHERE partition_id = $2 AND leader = $1 AND leader_epoch = $3 FOR UPDATE"
SIZES_IN = """
SELECT base_offset, size, max_timestamp FROM batches
 WHERE partition_id = $1 AND base_offset >= $2 AND base_offset < $3 ORDER BY base_offset LIMIT $4
"""
BATCHES_IN = """
SELECT base_offset, last_offset, max_timestamp, top_timestamp, leader_epoch, records FROM batches
 WHERE partition_id = $1 AND base_offset BETWEEN $2 AND $3 ORDER BY base_offset
"""
NEWEST_BASE = "SELECT base_offset FROM batches WHERE partition_id = $1 ORDER BY base_offset DESC LIMIT 1"
FLOOR_BASE = "SELECT base_offset FROM batches WHERE partition_id = $1 AND base_offset <= $2 ORDER BY base_offset DESC LIMIT 1"
DELETE_RANGE = "DELETE FROM batches WHERE partition_id = $1 AND base_offset BETWEEN $2 AND $3"
INSERT_BATCHES = """
INSERT INTO batches (partition_id, base_offset, last_offset, max_timestamp, top_timestamp, leader_epoch, size, records)
SELECT $1, n.base_offset, n.last_offset, n.max_timestamp, n.top_timestamp, n.leader_epoch, length(n.records), n.records
FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::int[], $7::bytea[])
  AS n (base_offset, last_offset, max_timestamp, top_timestamp, leader_epoch, records)
"""
SET_CLEANED = "UPDATE partitions SET cleaned_to = greatest(cleaned_to, $2) WHERE partition_id = $1"
DELETED_TOPICS = "SELECT topic_id FROM topics WHERE deleted"
PARTITIONS_OF = "SELECT partition_id FROM partitions WHERE topic_id = $1"
DELETE_SOME_BATCHES = """
DELETE FROM batches WHERE (partition_id, base_offset) IN (
  SELECT partition_id, base_offset FROM batches WHERE partition_id = $1 ORDER BY base_offset LIMIT $2)
"""
FORGET_PARTITION_BATCHES = "DELETE FROM batches WHERE partition_id = $1"
FORGET_PARTITION_EPOCHS = "DELETE FROM leader_epochs WHERE partition_id = $1"
FORGET_PARTITION_PRODUCERS = "DELETE FROM producers WHERE partition_id = $1"
FORGET_PARTITION = "DELETE FROM partitions WHERE partition_id = $1"
FORGET_TOPIC = "DELETE FROM topics WHERE topic_id = $1 AND deleted"

# --- catalog (cluster 1, 2.3) -----------------------------------------------------------------------------

VERSION = "SELECT version, balance FROM cluster"
LIVING = (
    "SELECT session, node_id, host, port, rack, state, listeners::text FROM sessions WHERE state <> 'dead'"
)
TOPICS_SINCE = "SELECT topic_id, name, partitions, configs::text, deleted FROM topics WHERE version > $1"
CONFIGS_SINCE = "SELECT resource, configs::text FROM broker_configs WHERE version > $1"
CONFIGS_OF = "SELECT configs::text FROM broker_configs WHERE resource = $1"
CREATE_TOPIC = """
WITH created AS (
  INSERT INTO topics (topic_id, name, collision_key, partitions, configs, version)
  VALUES ($2, $3, $4, $5::int, $6::text::jsonb, $1))
INSERT INTO partitions (topic_id, partition, version, assigned)
SELECT $2, n, $1, ($7::int[])[n + 1] FROM generate_series(0, $5::int - 1) AS n
"""
DELETE_TOPIC = (
    "UPDATE topics SET deleted = true, version = $1 WHERE topic_id = $2 AND NOT deleted RETURNING topic_id"
)
ADD_PARTITIONS = """
WITH old AS (SELECT topic_id, partitions FROM topics WHERE topic_id = $2 AND NOT deleted AND partitions < $3::int FOR UPDATE),
raised AS (UPDATE topics t SET partitions = $3::int, version = $1 FROM old WHERE t.topic_id = old.topic_id)
INSERT INTO partitions (topic_id, partition, version, assigned)
SELECT old.topic_id, n, $1, ($4::int[])[n - old.partitions + 1] FROM old, generate_series(old.partitions, $3::int - 1) AS n RETURNING partition
"""
SET_TOPIC_CONFIGS = """
UPDATE topics SET configs = $3::text::jsonb, version = $1 WHERE topic_id = $2 AND NOT deleted RETURNING topic_id
"""
SET_CONFIGS = """
INSERT INTO broker_configs (resource, configs, version) VALUES ($2, $3::text::jsonb, $1)
ON CONFLICT (resource) DO UPDATE SET configs = excluded.configs, version = excluded.version
"""
RESERVE_PRODUCER_IDS = """
UPDATE cluster SET next_producer_id = next_producer_id + $1::int RETURNING next_producer_id - $1::int
"""
