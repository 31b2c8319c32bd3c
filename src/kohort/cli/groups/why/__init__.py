"""``kohort groups why``: read a group's journal, show its rebalances."""
