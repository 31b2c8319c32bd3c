"""How often the tests that try anything at all try it."""

import os

# `make test` has a few minutes for everything, `make fuzz` an hour for this: 100 rounds, where that has one.
ROUNDS = int(os.environ.get("KOHORT_FUZZ_EXAMPLES", "1"))

# Frames of each kind that are sent in each version of each API: 24,000 are ten million in all.
FRAMES = int(os.environ.get("KOHORT_FUZZ_FRAMES", "20"))
