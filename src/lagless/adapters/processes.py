"""Consumers as processes of this machine, each in a process group of its own.

A folder remembers who was started: `consumer-N.json` with pid, start time and birth, so that the
next controller adopts what an earlier one started, and never takes a pid that was used again for
a consumer. `consumer-N.log` has what consumer N says. A lock in the folder keeps two controllers
from starting the same number twice.
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
"""Seconds between asking a process to end and ending it."""
SHORT = 30.0
"""Seconds: a consumer that ends sooner by itself keeps dying."""
LOG_MODE = os.O_WRONLY | os.O_CREAT | os.O_APPEND
BIRTH = "LAGLESS_BIRTH"


@dataclass(frozen=True, slots=True)
class _Record:
    """What is remembered of a start."""

    consumer: Consumer
    pid: int
    started: str
    """The kernel's word for when this pid began."""
    birth: str
    created_at: float
    ending_at: float | None = None
    """When it was asked to end."""
    died_at: float | None = None
    """When it was seen to have ended by itself."""
    deaths: tuple[float, ...] = ()
    """When starts of this number ended soon by themselves."""


class ProcessProvisioner:
    """ports.Provisioner on this machine."""

    def __init__(
        self,
        directory: Path,
        command: Sequence[str],
        restarts: int = 5,
        restart_window: float = 300,
        environment: Mapping[str, str] | None = None,
        grace: float = GRACE,
    ) -> None:
        """Keep records in `directory`; `command` starts a consumer, with {} for its number."""
        self._directory = directory
        self._command = command
        self._restarts = restarts
        self._window = restart_window
        self._environment = environment
        self._grace = grace
        self._children: set[int] = set()
        directory.mkdir(parents=True, exist_ok=True)

    def create(self, consumers: Collection[Consumer]) -> Mapping[Consumer, str]:
        """Start consumers that do not run; say why one could not be started."""
        troubles = {}
        with self._locked():
            for n in consumers:
                trouble = self._create(n)
                if trouble:
                    troubles[n] = trouble
        return troubles

    def delete(self, consumers: Mapping[Consumer, str]) -> None:
        """Ask processes to end, by the start that is meant; `instances` ends those that stay."""
        with self._locked():
            for n, incarnation in consumers.items():
                record = self._read(n)
                meant = messages.birth(incarnation)
                if record is None or (meant and record.birth != meant):
                    continue
                if record.ending_at is None:
                    self._signal(record, signal.SIGTERM)
                    self._write(replace(record, ending_at=time.time()))

    def instances(self) -> Sequence[Instance]:
        """Give what was started and is not gone, whoever started it."""
        with self._locked():
            return [found for n in self._numbers() if (found := self._instance(n)) is not None]

    def end_all(self) -> None:
        """End every consumer, and return when none is left."""
        began = time.time()
        self.delete(dict.fromkeys(self._numbers(), ""))
        while left := [i.consumer for i in self.instances()]:
            if time.time() - began > self._grace + 20:
                raise GiveUp(f"the processes of consumers {left} cannot be ended")
            time.sleep(0.05)

    def _create(self, consumer: Consumer) -> str:
        record = self._read(consumer)
        now = time.time()
        deaths: tuple[float, ...] = ()
        if record is not None:
            if self._is_alive(record):
                return "" if record.ending_at is None else "it is just being deleted"
            record = self._mourned(record)
            deaths = tuple(at for at in record.deaths if now - at < self._window)
        if len(deaths) > self._restarts:
            return (
                f"it died {len(deaths)} times within {self._window:g} s; "
                f"see {self._log(consumer)} for why"
            )
        birth = uuid.uuid4().hex[:12]
        environment = {**(self._environment or os.environ), BIRTH: birth}
        command = [word.replace("{}", str(consumer)) for word in self._command]
        log = (os.POSIX_SPAWN_OPEN, 1, str(self._log(consumer)), LOG_MODE, 0o644)
        null = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        both = (os.POSIX_SPAWN_DUP2, 1, 2)
        try:
            # A session of its own, so that it outlives this controller and its terminal.
            pid = os.posix_spawnp(
                command[0], command, environment, file_actions=[null, log, both], setsid=True
            )
        except OSError as error:
            return f"{self._command[0]} cannot be run: {error.strerror}"
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
            if time.time() - record.ending_at > self._grace:
                self._signal(record, signal.SIGKILL)
            return Instance(consumer, "deleting", at, birth=birth)
        if record.ending_at is not None:
            if _started(record.pid) is None:  # the pid is not another's: what it left ends too
                self._signal_group(record, signal.SIGKILL)
            self._forget(record)
            return None
        record = self._mourned(record)
        self._write(record)
        return Instance(consumer, "failed", at, f"it ended; see {self._log(consumer)}", birth)

    def _mourned(self, record: _Record) -> _Record:
        """Count a death, once, if the process ended by itself soon after its start."""
        if record.died_at is not None or record.ending_at is not None or record.pid == 0:
            return record
        now = time.time()
        soon = now - record.created_at < SHORT
        deaths = (*record.deaths, now) if soon else ()
        return replace(record, died_at=now, deaths=deaths)

    def _forget(self, record: _Record) -> None:
        """Forget a start; deaths are remembered as long as they count."""
        deaths = tuple(at for at in record.deaths if time.time() - at < self._window)
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
        if self._is_alive(record):
            self._signal_group(record, number)

    def _signal_group(self, record: _Record, number: signal.Signals) -> None:
        # A group's id is not given to another process as long as a member of the group lives.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(record.pid, number)

    def _numbers(self) -> list[Consumer]:
        names = [path.stem.rpartition("-")[2] for path in self._directory.glob("consumer-*.json")]
        return sorted(int(name) for name in names if name.isdigit())

    def _file(self, consumer: Consumer) -> Path:
        return self._directory / f"consumer-{consumer}.json"

    def _log(self, consumer: Consumer) -> Path:
        return self._directory / f"consumer-{consumer}.log"

    def _read(self, consumer: Consumer) -> _Record | None:
        try:
            found = json.loads(self._file(consumer).read_text())
            record = _Record(**{**found, "deaths": tuple(found["deaths"])})
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as error:
            raise GiveUp(
                f"{self._file(consumer)} is no record of a consumer; remove it after ending the "
                "process it was for"
            ) from error
        return record

    def _write(self, record: _Record) -> None:
        file = self._file(record.consumer)
        draft = file.with_suffix(".new")
        draft.write_text(json.dumps(asdict(record)))
        draft.replace(file)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with (self._directory / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def consumer_command(config: Path, overrides: Sequence[str] = ()) -> list[str]:
    """Give the command that starts a consumer with these settings; {} stands for its number."""
    words = [sys.executable, "-m", "lagless", "consumer", "{}", "--config", str(config.resolve())]
    for override in overrides:
        words += ["--set", override]
    return words


def _started(pid: int) -> str | None:
    """Give the kernel's word for when a process began; None if it does not run."""
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
