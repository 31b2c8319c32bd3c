"""A member of a consumer group, without I/O: events in, effects out, time and dice handed in.

``Membership`` is the door; ``commands`` is what a shell feeds in, ``effects`` what it has to do then.
"""
