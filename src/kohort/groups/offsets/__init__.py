"""What groups have consumed: commit, fetch, delete, retention."""
