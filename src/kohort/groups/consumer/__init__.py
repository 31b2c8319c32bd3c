"""Consumer groups (KIP-848): the coordinator computes the assignment, and members reconcile one by one."""
