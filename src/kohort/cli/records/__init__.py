"""``kohort produce`` and ``kohort consume``: records in, records out."""
