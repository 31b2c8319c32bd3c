"""Print what a broker answers: ``python -m tests.interop.scripts.show HOST:PORT [SCRIPT …]``."""

import json
import sys

from tests.interop.scripts.catalogue import SCRIPTS
from tests.interop.scripts.compare import run_script


def main() -> int:
    """Play scripts against a broker; all of them if none is named."""
    host, port = sys.argv[1].rsplit(":", 1)
    for name in sys.argv[2:] or list(SCRIPTS):
        for step, answer in run_script(SCRIPTS[name], (host, int(port))).items():
            print(f"{name} / {step}: {json.dumps(answer)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
