"""Who reads what: the assignors of a consumer group, and the blobs its members exchange about it.

Pure functions of the members' subscriptions and the partitions there are: no I/O, no clock, no dice. Modules
are imported by name: ``assignor`` is the contract, ``registry`` finds assignors by name, ``protocol`` reads
and writes.
"""
