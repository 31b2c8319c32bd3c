"""A log of files in the format of Kafka's segments, on a disk or in memory, and the catalog beside it."""
