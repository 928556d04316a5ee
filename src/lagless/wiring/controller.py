"""The controller on real parts: mailbox, provisioner, metrics and event log."""

import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from threading import Event
from typing import Literal

from lagless import extras, packing
from lagless.controller import recording
from lagless.controller.facts import Pack, Policy
from lagless.controller.service import Service
from lagless.errors import Fenced, TryAgain
from lagless.messages import Decision, Message
from lagless.model import Assignment, Speeds, TopicPartition
from lagless.ports import Provisioner
from lagless.settings import Settings
from lagless.wiring.clocks import RealClock

with extras.needed("kafka"):
    from lagless.adapters import controller_metrics, metrics, processes
    from lagless.adapters.kafka import reading
    from lagless.adapters.kafka.controller_mailbox import ControllerMailbox

log = logging.getLogger(__name__)


def algorithm(settings: Settings) -> str:
    """Give the packing algorithm with its parameters, as `lagless pack` would be told."""
    name = settings.controller.algorithm
    takes_slack = "slack" in packing.algorithm(name)[1] and "slack=" not in name
    return f"{name}:slack={settings.controller.slack:g}" if takes_slack else name


def pack_by(spec: str) -> Pack:
    """Give a packing algorithm in the machine's form."""
    packing.algorithm(spec)  # a wrong name is wrong settings now, not at the first measurement

    def pack(weights: Speeds, capacity: float, previous: Assignment) -> Assignment:
        return packing.pack(weights, capacity, previous, spec) if weights else {}

    return pack


def policy(settings: Settings) -> Policy:
    """Give the policy that the settings ask for."""
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
    )


def provisioner(settings: Settings, config: Path, overrides: Sequence[str] = ()) -> Provisioner:
    """Give who starts and stops consumers."""
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
    directory = chosen.directory or settings.lake.path.parent / f"{settings.group}.consumers"
    return processes.ProcessProvisioner(directory, command, chosen.restarts, chosen.restart_window)


def run(
    settings: Settings,
    config: Path,
    overrides: Sequence[str],
    ending: Event,
    tell: Callable[[str], None],
) -> None:
    """Lead, or stand by to lead, until `ending` is set."""
    chosen = policy(settings)
    tell(f"loading {algorithm(settings)}, which the first time on a machine has to be compiled")
    chosen.pack({TopicPartition("warm", 0): 1.0}, chosen.capacity, {})  # not when it is urgent
    observer = controller_metrics.ControllerMetrics(chosen)
    endpoint = None
    if settings.controller.metrics_port is not None:
        endpoint = metrics.serve(settings.controller.metrics_port, observer.registry, lambda: "")
        tell(f"metrics and health on port {endpoint.port}")
    clock = RealClock(ending)
    starts = provisioner(settings, config, overrides)
    try:
        while not ending.is_set():
            mailbox = ControllerMailbox(settings, ending.is_set)
            service = Service(
                mailbox, starts, clock, chosen, observer, algorithm=algorithm(settings)
            )
            try:
                tell("standing by to lead")
                service.begin()
                tell(f"leading from generation {service.state.generation}")
                service.run(ending.is_set)
            except Fenced as fenced:
                if not ending.is_set():
                    tell(f"standing by: {fenced}")
            except TryAgain as trouble:
                log.warning("cannot lead: %s", trouble)
                clock.sleep(2)
            finally:
                mailbox.close()
    finally:
        if endpoint is not None:
            endpoint.close()


def events(
    settings: Settings, told: bool = False, start: Literal["beginning"] | int = "beginning"
) -> Iterator[Message]:
    """Give the event log, oldest first: decisions, and what the machine was told if asked for."""
    reader = reading.Reader(
        settings.kafka, settings.event_topic, 0, start, fetch_message_max_bytes=100_000_000
    )
    try:
        for record in reader.drain_to_end(60):
            kind: type[Message] = Decision
            if b'"record":' in record.value[:400]:
                if not told:
                    continue
                began = b'"record":"began"' in record.value[:400]
                kind = recording.Began if began else recording.Told
            message = reader.decode(kind, record, settings.group)
            if message is not None:
                yield message
    finally:
        reader.close()


def replay(settings: Settings) -> list[recording.Comparison]:
    """Run the event log through the machine again."""
    return list(recording.replay(events(settings, told=True), pack_by, settings.group))
