"""Every statement that Kohort sends to PostgreSQL, nowhere else (cluster 1 to 5).

Table names have no schema: the search path of a connection says which cluster is meant. Where several rows
are locked, it is in the order of ``partition_id``, and the row of ``cluster`` before all others.
"""

# --- schema -----------------------------------------------------------------------------------------------

SCHEMA_EXISTS = "SELECT EXISTS (SELECT 1 FROM pg_namespace WHERE nspname = $1)"
SCHEMA_IS_USABLE = "SELECT has_schema_privilege($1, 'USAGE')"
CREATE_SCHEMA = "CREATE SCHEMA IF NOT EXISTS {schema}"
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
