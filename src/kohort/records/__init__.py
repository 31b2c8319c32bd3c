"""Record batches (magic 2): build, check, iterate, compress; and the records of ``__consumer_offsets``."""
