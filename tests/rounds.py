"""How often the tests that try anything at all try it."""

import os

# `make test` has a few minutes for everything, `make fuzz` an hour for this: 100 rounds, where that has one.
ROUNDS = int(os.environ.get("KOHORT_FUZZ_EXAMPLES", "1"))
