"""A member of the consumer protocol (KIP-848): ConsumerGroupHeartbeat does everything."""
