"""Kafka's group coordinator as a deterministic core: commands and time in, events and replies out.

``Shard`` is the door. It holds the groups of one partition of ``__consumer_offsets``.
"""
