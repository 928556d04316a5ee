"""Processes that end with the process that started them, however that one ends."""

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

from lagless.errors import GiveUp

GUARD = Path(__file__).with_name("guard.py")

Start = Callable[[], "subprocess.Popen[bytes]"]
Births = queue.SimpleQueue[tuple[Start, "Future[subprocess.Popen[bytes]]"]]

_lock = threading.Lock()
_nursery: tuple[int, Births] | None = None


def guarded(command: Sequence[str | Path]) -> list[str]:
    """Return a command that becomes the given one, and dies with the thread that starts it."""
    how = "kernel" if sys.platform == "linux" else "watcher"
    return [sys.executable, "-I", "-S", str(GUARD), str(os.getpid()), how, *map(str, command)]


def bear(
    command: Sequence[str | Path],
    log: Path,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    keep: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start a command that dies with this process; its output is appended to the log.

    The file descriptors in `keep` stay open in it. A terminal's Ctrl-C does not reach it: this
    process decides when it ends.
    """

    def start() -> subprocess.Popen[bytes]:
        with log.open("ab") as output:
            return subprocess.Popen(
                guarded(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=env,
                cwd=cwd,
                pass_fds=tuple(keep),
                start_new_session=True,
            )

    child: Future[subprocess.Popen[bytes]] = Future()
    _births().put((start, child))
    return child.result()


def end(process: subprocess.Popen[bytes], patience: float = 20.0) -> None:
    """Ask a process to end, and kill it when it does not within the patience, in seconds."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


def await_ready(
    what: str,
    processes: Sequence[subprocess.Popen[bytes]],
    ready: Callable[[], bool],
    seconds: float,
    log: Path,
) -> None:
    """Wait until `ready` comes true; GiveUp if a process ends before, or the seconds are over."""
    until = time.monotonic() + seconds
    while not ready():
        for process in processes:
            if process.poll() is not None:
                raise died(what, process, log)
        if time.monotonic() > until:
            raise GiveUp(f"{what} did not answer within {seconds:g} s: see {log}")
        time.sleep(0.05)


def last_words(log: Path, lines: int = 3) -> str:
    """Return the lines of a log that say most about a failure, as part of a sentence."""
    text = log.read_text(errors="replace").splitlines() if log.exists() else []
    telling = [line for line in text if "ERROR" in line or "Exception" in line or "Error:" in line]
    return " / ".join(line.strip() for line in (telling or text)[-lines:]) or "its log is empty"


def died(what: str, process: subprocess.Popen[bytes], log: Path) -> GiveUp:
    """Say that a process ended by itself, with what it said last."""
    return GiveUp(f"{what} ended with status {process.returncode} ({last_words(log)}): see {log}")


def _births() -> Births:
    """Return the queue of the one thread that starts all children.

    Linux sends the death signal when the thread that forked ends, not the process: so a thread
    that lives as long as this process has to do it. After a fork there is a new one.
    """
    global _nursery  # noqa: PLW0603  (one per process, like the thread itself)
    with _lock:
        if _nursery is None or _nursery[0] != os.getpid():
            births: Births = queue.SimpleQueue()
            threading.Thread(target=_nurse, args=(births,), name="nursery", daemon=True).start()
            _nursery = (os.getpid(), births)
        return _nursery[1]


def _nurse(births: Births) -> None:
    while True:
        start, child = births.get()
        try:
            child.set_result(start())
        except BaseException as error:
            child.set_exception(error)
