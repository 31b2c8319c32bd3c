"""Measurements of Kohort beside its peers, in one run on one machine: ratios count, not absolute numbers."""
