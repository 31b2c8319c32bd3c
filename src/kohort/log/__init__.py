"""The log: Kafka's segment files behind two Protocols, and the catalog of what the files belong to."""
