"""Record batches decoded straight into columns, without a Python object for each record.

``sections`` finds the payloads in what a Fetch brought, one of three decoders finds the fields in them
(``lanes`` with numpy, ``compiled`` with numba, ``walk`` in plain Python), ``read`` puts both together and
``arrow`` copies what was found into Arrow's buffers. All need the extra ``kohort[arrow]``: import them late.
"""
