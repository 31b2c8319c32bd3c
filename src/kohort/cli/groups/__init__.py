"""``kohort groups``: see groups, explain their rebalances, set and delete their offsets."""
