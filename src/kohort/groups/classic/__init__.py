"""Classic groups: the protocol of JoinGroup, SyncGroup, Heartbeat and LeaveGroup, one decision a module."""
