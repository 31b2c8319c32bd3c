"""The light broker: sockets, requests, topics and the data path around the group core."""
