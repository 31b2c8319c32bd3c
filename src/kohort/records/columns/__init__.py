"""Record batches decoded straight into columns, without a Python object for each record.

``sections`` finds the payloads in what a Fetch brought, ``lanes`` finds the fields in them (``few`` where
there are too few for vectors, by the decoder of objects), ``read`` puts both together and
``arrow`` copies what was found into Arrow's buffers. All need the extra ``kohort[arrow]``: import them late.
"""
