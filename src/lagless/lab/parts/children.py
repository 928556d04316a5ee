"""Processes that end with the process that started them, the servers made of them, and TCP ports.

Linux sends the death signal of a child when the thread that forked it ends, not the process. So
one thread, which lives as long as this process, starts all of them.
"""

import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

from lagless.adapters.spark.guard import guarded
from lagless.adapters.spark.sessions import HOST
from lagless.errors import GiveUp, WrongInput

Process = subprocess.Popen[bytes]
Requests = queue.SimpleQueue[tuple[Callable[[], Process], "Future[Process]"]]

_lock = threading.Lock()
_starter: tuple[int, Requests] | None = None


def start(
    command: Sequence[str | Path],
    log: Path,
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    keep: Sequence[int] = (),
) -> Process:
    """Start a command that dies with this process; its output is appended to the log.

    The file descriptors in `keep` stay open in it. A terminal's Ctrl-C does not reach it: this
    process decides when it ends.
    """

    def fork() -> Process:
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

    child: Future[Process] = Future()
    _requests().put((fork, child))
    return child.result()


def end(process: Process, patience: float = 20.0) -> None:
    """Ask a process to end, and kill it if it has not ended after `patience` seconds."""
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def last_lines(log: Path) -> str:
    """Return the lines of a log that say most about a failure, as part of a sentence."""
    text = log.read_text(errors="replace").splitlines() if log.exists() else []
    telling = [line for line in text if "ERROR" in line or "Exception" in line or "Error:" in line]
    return " / ".join(line.strip() for line in (telling or text)[-3:]) or "its log is empty"


def ended(what: str, process: Process, log: Path) -> GiveUp:
    """Return the error for a process that ended by itself, with the last lines of its log."""
    return GiveUp(f"{what} ended with status {process.returncode} ({last_lines(log)}): see {log}")


def _requests() -> Requests:
    """Return the queue of the thread that starts all children; after a fork there is a new one."""
    global _starter  # noqa: PLW0603  (one per process, like the thread itself)
    with _lock:
        if _starter is None or _starter[0] != os.getpid():
            requests: Requests = queue.SimpleQueue()
            threading.Thread(target=_serve, args=(requests,), name="starter", daemon=True).start()
            _starter = (os.getpid(), requests)
        return _starter[1]


def _serve(requests: Requests) -> None:
    while True:
        fork, child = requests.get()  # nosec B113  # a queue
        try:
            child.set_result(fork())
        except BaseException as error:
            child.set_exception(error)


class Children:
    """Python processes by name."""

    def __init__(self) -> None:
        self._running: dict[str, tuple[Process, Path]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._running

    def start(self, name: str, arguments: Sequence[str], log: Path) -> None:
        """Start `python -m …` under a name; its output goes to the log."""
        self._running[name] = (start([sys.executable, "-m", *arguments], log), log)

    def check(self) -> None:
        """Raise GiveUp with the last lines of its log if a process has ended by itself."""
        for name, (process, log) in self._running.items():
            if process.poll() is not None:
                raise ended(f"the {name}", process, log)

    def kill(self, name: str) -> None:
        """Kill a process at once, as a crash would."""
        process, _ = self._running.pop(name)
        process.kill()
        process.wait()

    def end(self, *names: str, patience: float = 10.0) -> None:
        """Ask processes to end, all at once, and kill those that are left after the patience."""
        processes = [self._running.pop(name)[0] for name in names or list(self._running)]
        for process in processes:
            process.terminate()
        until = time.monotonic() + patience
        for process in processes:
            end(process, max(0.1, until - time.monotonic()))


def free_tcp_ports(count: int = 1) -> list[int]:
    """Return TCP ports of this machine that are free at this moment, all different."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for listener in sockets:
            listener.bind((HOST, 0))
        return [listener.getsockname()[1] for listener in sockets]


def is_free(port: int) -> bool:
    """Return whether a server could listen on the TCP port."""
    with socket.socket() as probe:
        # As servers do: connections of an earlier one that are still closing do no harm.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with suppress(OSError):
            probe.bind((HOST, port))
            return True
    return False


def answers(port: int) -> bool:
    """Return whether something accepts connections on the TCP port."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex((HOST, port)) == 0


class Server:
    """A server that runs between entering and leaving, and no longer than this process.

    Its files are in `folder`, or in a temporary one that goes with it.
    """

    title = "server"
    deadline = 120.0
    """Seconds until it has to answer."""

    def __init__(self, folder: Path | str | None, port: int | None, log: str) -> None:
        self._temporary = folder is None
        prefix = f"lagless-{self.title.rpartition(' ')[2]}-"
        self.folder = Path(tempfile.mkdtemp(prefix=prefix) if folder is None else folder).absolute()
        self.log = self.folder / log
        self._port = port
        self._processes: list[Process] = []
        self._paused = False

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._running().pid

    @property
    def running(self) -> bool:
        """Return whether it was started and not ended."""
        return bool(self._processes)

    @property
    def responsive(self) -> bool:
        """Return whether it is running, and neither crashed nor paused."""
        alive = all(process.poll() is None for process in self._processes)
        return self.running and alive and not self._paused

    def start(self) -> Self:
        """Start the server and return when it answers; started again, it keeps data and port."""
        if self._processes:
            raise WrongInput(f"this {self.title} runs already: stop it before starting it again")
        if self._port is not None and not is_free(self._port):
            raise GiveUp(f"port {self._port} is in use on this machine: choose another one")
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._launch()
        except BaseException:
            self.kill()
            raise
        return self

    def pause(self) -> None:
        """Hold the server where it is (SIGSTOP), as when its machine hangs."""
        self._running().send_signal(signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        """Let a paused server go on; it finds that time has passed."""
        self._running().send_signal(signal.SIGCONT)
        self._paused = False

    def stop(self) -> None:
        """Stop the server; a stopped one may be started again."""
        for process in self._processes:
            process.send_signal(signal.SIGCONT)  # a paused one would not hear that it is to end
        self._paused = False
        while self._processes:
            end(self._processes.pop())

    def kill(self) -> None:
        """End the server at once, as a crash would."""
        for process in self._processes:
            process.kill()
        self.stop()

    def wait(self) -> int:
        """Wait until the server ends by itself, and return its exit status."""
        return self._running().wait()

    def __enter__(self) -> Self:
        return self if self._processes else self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _launch(self) -> None:
        """Start the process and wait until it answers."""
        raise NotImplementedError

    def _await(self, what: str, ready: Callable[[], bool]) -> None:
        """Wait until `ready` is true; GiveUp if a process ends first, or after the deadline."""
        until = time.monotonic() + self.deadline
        while not ready():
            for process in self._processes:
                if process.poll() is not None:
                    raise ended(what, process, self.log)
            if time.monotonic() > until:
                raise GiveUp(f"{what} did not answer within {self.deadline:g} s: see {self.log}")
            time.sleep(0.05)

    def _running(self) -> Process:
        if not self._processes:
            raise WrongInput(f"this {self.title} does not run: start it first")
        return self._processes[0]
