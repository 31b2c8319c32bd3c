"""The consumer: ``AsyncConsumer`` on the caller's event loop, ``Consumer`` for everybody else."""
