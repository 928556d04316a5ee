"""The controller on real parts: mailbox, provisioner, metrics and event log."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Literal, Protocol

from lagless import extras, packing
from lagless.controller import event_log, metrics, shortfall
from lagless.controller.service import Service
from lagless.controller.state import Pack, Policy, State
from lagless.errors import Fenced, TryAgain
from lagless.messages import AnyDecision, Decision, Message
from lagless.ports import Provisioner
from lagless.settings import Settings
from lagless.wiring import compacting
from lagless.wiring.clock import RealClock
from lagless.wiring.compiling import pack_by, ready_at_once
from lagless.wiring.reloading import Reloading

with extras.needed("kafka"):
    from lagless.adapters import endpoints, processes
    from lagless.adapters.kafka import contact, topic_records
    from lagless.adapters.kafka.mail import ControllerMailbox

log = logging.getLogger(__name__)


def algorithm(settings: Settings) -> str:
    """Return the packing algorithm with its parameters, as `lagless pack` takes it."""
    name = settings.controller.algorithm
    takes_slack = "slack" in packing.algorithm(name)[1] and "slack=" not in name
    return f"{name}:slack={settings.controller.slack:g}" if takes_slack else name


def policy(settings: Settings) -> Policy:
    """Return the policy that the settings ask for."""
    controller, consumer = settings.controller, settings.consumer
    return Policy(
        group=settings.group,
        capacity=settings.capacity,
        pack=pack_by(algorithm(settings)),
        iteration=controller.iteration,
        pause=controller.pause,
        catch_up=controller.catch_up,
        gather=consumer.wait_seconds,
        min_consumers=controller.min_consumers,
        max_consumers=controller.max_consumers,
        stale_after=controller.stale_after,
        patience=min(30, controller.stale_after),
        lost_after=consumer.lost_after,
        start_deadline=consumer.start_deadline,
        order_deadline=consumer.order_deadline,
        cycle_deadline=consumer.cycle_deadline,
        repeat=min(5, consumer.order_deadline / 4),
        max_rate=settings.max_rate,
        early_consumers=controller.min_consumers,
        spare_consumers=controller.spares,
        dead_band=controller.dead_band,
        shrink_after=controller.shrink_after,
        max_move=controller.max_move,
        delay=controller.delay or 0,
    )


def provisioner(settings: Settings, config: Path, overrides: Sequence[str] = ()) -> Provisioner:
    """Return the provisioner that starts and stops consumers."""
    if settings.provisioner.kind == "kubernetes":
        with extras.needed("kubernetes"):
            from lagless.adapters.kubernetes.provisioner import KubernetesProvisioner
        return KubernetesProvisioner(settings)
    return _processes(settings, processes.consumer_command(config, overrides))


def end_consumers(settings: Settings) -> None:
    """End every consumer that runs as a process of this machine; nothing elsewhere."""
    if settings.provisioner.kind == "processes":
        _processes(settings, ()).end_all()


def _processes(settings: Settings, command: Sequence[str]) -> processes.ProcessProvisioner:
    chosen = settings.provisioner
    return processes.ProcessProvisioner(
        _directory(settings), command, chosen.restarts, chosen.restart_window
    )


def _directory(settings: Settings) -> Path:
    lake = settings.lake.path
    beside = lake.parent if isinstance(lake, Path) else Path.cwd()
    return settings.provisioner.directory or beside / f"{settings.group}.consumers"


def _compacting(
    settings: Settings, config: Path, overrides: Sequence[str]
) -> AbstractContextManager[None]:
    """Return a background compaction if the settings ask for one."""
    if not settings.compaction.watch:
        return nullcontext()
    words = compacting.command(config.resolve(), overrides)
    return compacting.beside(words, _directory(settings) / "compact.log")


class Observer:
    """The metrics, and a warning where consumers do not reach C̄."""

    def __init__(self, record: metrics.Record, max_rate: float) -> None:
        self.record = record
        self._max_rate = max_rate
        self._watch = shortfall.Watch()

    def saw(self, state: State, decisions: Sequence[AnyDecision]) -> None:
        """See the state after a turn, and what was decided in it."""
        self.record.saw(state, decisions)
        beats = {n: member.last for n, member in state.members.items() if member.last is not None}
        self._watch, warning = shortfall.look(self._watch, state.at, beats, self._max_rate)
        if warning:
            log.warning("%s", warning)

    def requested(self, seconds: float) -> None:
        """See that creations were requested so long after the measurement was read (Δt2)."""
        self.record.requested(seconds)


def run(
    settings: Settings,
    config: Path,
    overrides: Sequence[str],
    ending: Event,
    tell: Callable[[str], None],
    reloading: Reloading | None = None,
) -> None:
    """Lead, or stand by to lead, until `ending` is set.

    With settings that changed it gives up the lead and takes it again, like a restarted controller.
    """
    changed = Event()
    if reloading is not None:
        reloading.start(lambda _: changed.set())
    with _compacting(settings, config, overrides):
        while not ending.is_set():
            changed.clear()
            now = settings if reloading is None else reloading.settings
            ends = _Either(ending, changed)
            with ready_at_once(algorithm(now)) as pack:
                _lead(now, provisioner(now, config, overrides), pack, ends, tell)


class _Either(Event):
    """The end of the process, or of these settings."""

    def __init__(self, ending: Event, changed: Event) -> None:
        super().__init__()
        self._events = ending, changed

    def is_set(self) -> bool:
        """Return whether either event is set."""
        return any(event.is_set() for event in self._events)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of the process; changed settings wait for the end of a sleep."""
        return self._events[0].wait(timeout)


def _lead(
    settings: Settings, starts: Provisioner, pack: Pack, ending: Event, tell: Callable[[str], None]
) -> None:
    chosen = replace(policy(settings), pack=pack)
    observer = Observer(metrics.Record(chosen), chosen.max_rate)
    clock = RealClock(ending)
    registry = endpoints.registry(metrics.METRICS, lambda: observer.record, clock.now)
    endpoint = endpoints.serve(settings.controller.metrics_port, registry, lambda: "", tell=tell)
    try:
        while not ending.is_set():
            mailbox = ControllerMailbox(settings, ending.is_set)
            service = Service(
                mailbox, starts, clock, chosen, observer, algorithm=algorithm(settings)
            )
            try:
                take_turn(service, clock, ending, tell)
            finally:
                mailbox.close()
    finally:
        endpoint.close()


class Led(Protocol):
    """What a controller knows of its group."""

    @property
    def generation(self) -> int:
        """The generation of the newest assignment."""


class Leader(Protocol):
    """A service that leads a group, of whatever kind."""

    @property
    def state(self) -> Led:
        """What it knows."""

    def begin(self) -> None:
        """Wait until this is the one controller that acts, and take up what was persisted."""

    def run(self, ends: Callable[[], bool]) -> None:
        """Lead until it ends."""


def take_turn(leader: Leader, clock: RealClock, ending: Event, tell: Callable[[str], None]) -> None:
    """Stand by, then lead, until another controller does, something is away, or it is over."""
    try:
        tell("standing by")
        leader.begin()
        tell(f"leading from generation {leader.state.generation}")
        leader.run(ending.is_set)
    except Fenced as fenced:
        if not ending.is_set():
            tell(f"standing by: {fenced}")
    except TryAgain as trouble:
        log.warning("cannot lead, will retry: %s", trouble)
        clock.sleep(2)


def events(
    settings: Settings, told: bool = False, start: Literal["beginning"] | int = "beginning"
) -> Iterator[Message]:
    """Return the event log, oldest first: decisions, and what the machine was told if asked for."""
    contact.reach(settings.kafka)
    reader = topic_records.Reader(
        settings.kafka, settings.event_topic, 0, start, fetch_message_max_bytes=100_000_000
    )
    return reader.rest(Message if told else Decision, settings.group, 60)


def replay(settings: Settings) -> list[event_log.Comparison]:
    """Run the event log through the machine again."""
    return list(event_log.replay(events(settings, told=True), pack_by, settings.group))
