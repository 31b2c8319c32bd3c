"""One module for each API, generated: its request and its response."""
