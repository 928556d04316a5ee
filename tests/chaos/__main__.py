"""`python -m tests.chaos consumer …` and `python -m tests.chaos group …`."""

import importlib
import signal
import sys

KINDS = ("consumer", "group")

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in KINDS:
        sys.exit(f"python -m tests.chaos {'|'.join(KINDS)} …")
    # Whoever ends a run early wants nothing of it left: let the way out be the usual one.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(importlib.import_module(f"tests.chaos.{sys.argv[1]}").main(sys.argv[2:]))
