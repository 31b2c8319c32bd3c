"""Several nodes on one PostgreSQL: all that is durable is rows (cluster)."""
