"""Kohort: Kafka's consumer-group system as one Python package."""

__version__ = "0.1.0"
