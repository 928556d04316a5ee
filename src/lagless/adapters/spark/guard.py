"""Become another command that dies with the process that asked for it.

Run as `python guard.py PARENT HOW COMMAND…`. It is a file of its own, run and then replaced by
COMMAND, because code between fork and exec in a process with threads may wait for ever.
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

PR_SET_PDEATHSIG = 1


def guarded(command: Sequence[str | Path]) -> list[str]:
    """Return a command that becomes the given one, and dies with the thread that starts it."""
    how = "kernel" if sys.platform == "linux" else "watcher"
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), how, *map(str, command)]


def by_watcher(parent: int) -> None:
    """Leave a watcher beside this process that kills it when the parent is gone."""
    watched = os.getpid()
    if os.fork() != 0:
        return
    while os.getppid() == watched:
        try:
            os.kill(parent, 0)
        except ProcessLookupError:
            os.kill(watched, signal.SIGKILL)
        time.sleep(0.5)
    os._exit(0)


def main() -> None:
    """Bind this process to the parent's life and become the command."""
    parent, how, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    if how == "kernel":
        # Linux kills this process, whatever it becomes, when its parent dies.
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
    else:
        by_watcher(parent)
    # The parent may have died before the binding held.
    if os.getppid() != parent:
        os._exit(1)
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
