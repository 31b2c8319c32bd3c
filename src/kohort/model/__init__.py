"""The words every package shares: ids, error codes, topic partitions. Standard library only."""
