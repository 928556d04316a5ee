"""Consumers as processes of this machine, each in a process group of its own.

A folder records what was started: `consumer-N.json` has pid, start time and birth, so that the
next controller adopts running consumers and never mistakes a reused pid for one. `consumer-N.log`
has the output of consumer N. A lock in the folder keeps two controllers from starting the same
number twice.
"""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from lagless import messages
from lagless.errors import GiveUp
from lagless.model import Consumer
from lagless.ports import Instance

GRACE = 10.0
"""Seconds between SIGTERM and SIGKILL."""
SHORT = 30.0
"""Seconds: a consumer that ends by itself sooner than this counts as crashing."""
LOG_MODE = os.O_WRONLY | os.O_CREAT | os.O_APPEND
BIRTH = "LAGLESS_BIRTH"


@dataclass(frozen=True, slots=True)
class _Record:
    """The record of a start."""

    consumer: Consumer
    pid: int
    started: str
    """When the process began, as the kernel reports it."""
    birth: str
    created_at: float
    ending_at: float | None = None
    """When it was asked to end."""
    died_at: float | None = None
    """When it was found to have ended by itself."""
    deaths: tuple[float, ...] = ()
    """When earlier starts of this number crashed."""


@dataclass(eq=False)
class ProcessProvisioner:
    """Provisioner on this machine; `command` starts a consumer, with {} for its number."""

    directory: Path
    command: Sequence[str]
    restarts: int = 5
    restart_window: float = 300
    grace: float = GRACE

    def __post_init__(self) -> None:
        self._children: set[int] = set()
        self.directory.mkdir(parents=True, exist_ok=True)

    def create(self, consumers: Collection[Consumer]) -> Mapping[Consumer, str]:
        """Start the consumers that are not running; return why any could not be started."""
        with self._locked():
            troubles = {n: self._create(n) for n in consumers}
        return {n: trouble for n, trouble in troubles.items() if trouble}

    def delete(self, consumers: Mapping[Consumer, str]) -> None:
        """Send SIGTERM to these starts; `instances` kills those that do not end."""
        with self._locked():
            for n, incarnation in consumers.items():
                record = self._read(n)
                meant = messages.birth(incarnation)
                if record is None or (meant and record.birth != meant):
                    continue
                if record.ending_at is None:
                    if self._is_alive(record):
                        self._signal(record, signal.SIGTERM)
                    self._write(replace(record, ending_at=time.time()))

    def instances(self) -> Sequence[Instance]:
        """Return the consumers that are not gone, whichever controller started them."""
        with self._locked():
            return [seen for n in self._numbers() if (seen := self._instance(n)) is not None]

    def end_all(self) -> None:
        """End every consumer, and return once none is left."""
        began = time.time()
        self.delete(dict.fromkeys(self._numbers(), ""))
        while left := [i.consumer for i in self.instances()]:
            if time.time() - began > self.grace + 20:
                raise GiveUp(f"the processes of consumers {left} cannot be stopped")
            time.sleep(0.05)

    def _create(self, consumer: Consumer) -> str:
        record = self._read(consumer)
        now = time.time()
        deaths: tuple[float, ...] = ()
        if record is not None:
            if self._is_alive(record):
                return "" if record.ending_at is None else "it is still being deleted"
            record = self._mourned(record)
            deaths = tuple(at for at in record.deaths if now - at < self.restart_window)
        if len(deaths) > self.restarts:
            return (
                f"it crashed {len(deaths)} times within {self.restart_window:g} s; "
                f"see {self._log(consumer)} for why"
            )
        birth = uuid.uuid4().hex[:12]
        environment = {**os.environ, BIRTH: birth}
        command = [word.replace("{}", str(consumer)) for word in self.command]
        log = (os.POSIX_SPAWN_OPEN, 1, str(self._log(consumer)), LOG_MODE, 0o644)
        null = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        both = (os.POSIX_SPAWN_DUP2, 1, 2)
        try:
            # A session of its own, so that it outlives this controller and its terminal.
            pid = os.posix_spawnp(
                command[0], command, environment, file_actions=[null, log, both], setsid=True
            )
        except OSError as error:
            return f"{self.command[0]} cannot be run: {error.strerror}"
        self._children.add(pid)
        started = _started(pid) or ""
        self._write(_Record(consumer, pid, started, birth, now, deaths=deaths))
        return ""

    def _instance(self, consumer: Consumer) -> Instance | None:
        record = self._read(consumer)
        if record is None or record.pid == 0:
            return None
        at, birth = record.created_at, record.birth
        if self._is_alive(record):
            if record.ending_at is None:
                return Instance(consumer, "running", at, birth=birth)
            if time.time() - record.ending_at > self.grace:
                self._signal(record, signal.SIGKILL)
            return Instance(consumer, "deleting", at, birth=birth)
        if record.ending_at is not None:
            if _started(record.pid) is None:  # the pid is not another's: what it left ends too
                self._signal(record, signal.SIGKILL)
            self._forget(record)
            return None
        record = self._mourned(record)
        self._write(record)
        return Instance(consumer, "failed", at, f"it ended; see {self._log(consumer)}", birth)

    def _mourned(self, record: _Record) -> _Record:
        """Count a crash, once, if the process ended by itself soon after its start."""
        if record.died_at is not None or record.ending_at is not None or record.pid == 0:
            return record
        now = time.time()
        soon = now - record.created_at < SHORT
        deaths = (*record.deaths, now) if soon else ()
        return replace(record, died_at=now, deaths=deaths)

    def _forget(self, record: _Record) -> None:
        """Forget a start, but keep its crashes for as long as they count."""
        deaths = tuple(at for at in record.deaths if time.time() - at < self.restart_window)
        if deaths:
            self._write(_Record(record.consumer, 0, "", "", 0, deaths=deaths))
        else:
            self._file(record.consumer).unlink(missing_ok=True)

    def _is_alive(self, record: _Record) -> bool:
        if record.pid in self._children:
            with contextlib.suppress(ChildProcessError):
                if os.waitpid(record.pid, os.WNOHANG)[0] == 0:
                    return True
            self._children.discard(record.pid)
            return False
        return record.pid > 0 and record.started != "" and _started(record.pid) == record.started

    def _signal(self, record: _Record, number: signal.Signals) -> None:
        # The kernel does not reuse the id of a process group while a member is alive.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(record.pid, number)

    def _numbers(self) -> list[Consumer]:
        names = [path.stem.rpartition("-")[2] for path in self.directory.glob("consumer-*.json")]
        return sorted(int(name) for name in names if name.isdigit())

    def _file(self, consumer: Consumer) -> Path:
        return self.directory / f"consumer-{consumer}.json"

    def _log(self, consumer: Consumer) -> Path:
        return self.directory / f"consumer-{consumer}.log"

    def _read(self, consumer: Consumer) -> _Record | None:
        try:
            fields = json.loads(self._file(consumer).read_text())
            return _Record(**{**fields, "deaths": tuple(fields["deaths"])})
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as error:
            raise GiveUp(
                f"{self._file(consumer)} is not a record of a consumer; remove it after ending the "
                "process it was for"
            ) from error

    def _write(self, record: _Record) -> None:
        file = self._file(record.consumer)
        draft = file.with_suffix(".new")
        draft.write_text(json.dumps(asdict(record)))
        draft.replace(file)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.directory / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def consumer_command(config: Path, overrides: Sequence[str] = ()) -> list[str]:
    """Return the command that starts a consumer with these settings; {} stands for its number."""
    words = [sys.executable, "-m", "lagless", "consumer", "{}", "--config", str(config.resolve())]
    return words + [word for override in overrides for word in ("--set", override)]


def _started(pid: int) -> str | None:
    """Return when a process began, as the kernel reports it; None if it is not running."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if words[0] in "ZX" else words[19]
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
    except (ProcessLookupError, IndexError):
        return None
    asked = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True
    )
    state, _, began = asked.stdout.strip().partition(" ")
    return began.strip() if asked.returncode == 0 and not state.startswith("Z") else None
