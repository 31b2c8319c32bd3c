"""The pure half of reading: what to ask of whom, what came back, and where to read on. No I/O."""
