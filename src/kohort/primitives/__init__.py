"""Numbers, checksums and text as the protocol writes them: what `wire` and `records` are both made of."""
