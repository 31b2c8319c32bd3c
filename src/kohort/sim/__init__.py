"""The group core on virtual time: scenarios, exhaustive exploration. No I/O."""
