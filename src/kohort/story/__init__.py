"""The journal, read: the rebalances of a group, why they happened, and which partitions had no owner."""
