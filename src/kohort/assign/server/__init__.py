"""The assignors that run in the coordinator (KIP-848): ``uniform`` and ``range``.

``group`` holds their input and output. They are pure functions: the same input in the same order gives the
same result as the classes of Apache Kafka 4.2.
"""
