"""What both sides of a secured connection share: SCRAM, JAAS text, secrets, certificates. No sockets."""
