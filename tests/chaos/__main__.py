"""`python -m tests.chaos consumer …` and `python -m tests.chaos group …`."""

import importlib
import signal
import sys

from lagless.wiring import clock

KINDS = ("consumer", "group")

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in KINDS:
        sys.exit(f"python -m tests.chaos {'|'.join(KINDS)} …")
    # A run that is asked to end cleans up on its usual way out.
    clock.on_signals(lambda: sys.exit(143), (signal.SIGTERM,))
    sys.exit(importlib.import_module(f"tests.chaos.{sys.argv[1]}").main(sys.argv[2:]))
