"""The group lake: ``__consumer_offsets`` and the journal as tables, verdicts and a report.

``decode`` makes columns of records, ``source`` offers them to Spark. Needs the extra ``kohort[spark]``.
"""
