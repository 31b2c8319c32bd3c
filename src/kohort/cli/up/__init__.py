"""``kohort up``: everything there is, on defaults: the command, its parts, what the terminal shows."""
