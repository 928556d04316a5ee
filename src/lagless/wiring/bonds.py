"""Consumers that end with another process: those of a demo do not outlive the demo.

Consumers outlive their controller on purpose. Where LAGLESS_END_WITH names a process, they end
when that one is gone, however it went.
"""

import os
import time
from threading import Event, Thread

END_WITH = "LAGLESS_END_WITH"
GRACE = 15.0
"""Seconds for the last cycle."""


def end_with(ending: Event) -> None:
    """Set `ending` when the process that the variable names is gone; end for good after a while."""
    named = os.environ.get(END_WITH, "")
    if named.isdigit():
        Thread(target=_watch, args=(int(named), ending), name="bond", daemon=True).start()


def _watch(pid: int, ending: Event) -> None:
    while _is_there(pid):
        time.sleep(0.5)
    ending.set()
    time.sleep(GRACE)
    os._exit(1)


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
