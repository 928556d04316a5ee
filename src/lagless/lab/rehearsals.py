"""Streams under today's rules, those of 0.1.0, the paper's, KEDA's, and with the future known."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np

from lagless import extras
from lagless.controller.state import Policy
from lagless.errors import WrongInput
from lagless.lab.model import kinds, latency, least, recordings, rules
from lagless.lab.model.keda import Keda
from lagless.lab.model.streams import Floats
from lagless.model import Speeds, TopicPartition, capacity
from lagless.settings import Settings
from lagless.wiring import controller
from lagless.wiring.compiling import pack_by

WAYS = ("lagless", "0.1.0", "mwf", "keda", "clairvoyant")
"""The ways of running a group that are compared."""
FIRST = "sticky:slack=0.05"
"""How 0.1.0 packed."""
QUANTILES = (50, 90, 99)
STEP = 5.0
"""Seconds between two rows of a recording, if a rebalance takes no longer."""


@dataclass(frozen=True, slots=True)
class Material:
    """A stream to replay."""

    name: str
    partitions: Sequence[TopicPartition]
    speeds: Floats
    step: float

    @property
    def rows(self) -> int:
        """Count the steps of a replay."""
        return len(self.speeds) - 1


def recorded(
    settings: Settings, since: datetime, told: Callable[[float], None] = lambda _: None
) -> recordings.Recording:
    """Read what the monitor published since a time; `told` hears the share that is read."""
    with extras.needed("kafka"):
        from lagless.adapters.kafka import contact, speeds
    contact.reach(settings.kafka)
    step = max(STEP, settings.controller.rebalance)
    published = speeds.recorded(settings, since, told)
    return recordings.gather(published, step, settings.controller.stale_after)


VALUES = 200_000
"""Speeds that `recent` makes of traffic at most, so that an answer takes seconds."""


def recent(settings: Settings, measured: Sequence[tuple[float, Speeds]]) -> Material:
    """Return measurements that are at hand; many partitions are taken at a longer step."""
    values = sum(len(speeds) for _, speeds in measured)
    step = max(STEP, settings.controller.rebalance)
    if values > VALUES:
        step = max(step, (measured[-1][0] - measured[0][0]) / (len(measured) * VALUES / values))
    recording = recordings.grid(measured, step, settings.controller.stale_after)
    names, speeds = named(recording.stream.partitions), recording.stream.speeds
    return Material(settings.monitor.topic, names, speeds, recording.step)


def recent_targets(
    settings: Settings, measured: Sequence[tuple[float, Speeds]], rate: float
) -> list[dict[str, Any]]:
    """Return what each target costs on measurements at hand, for consumers that read `rate`."""
    if rate != settings.max_rate:
        known = settings.members.model_copy(update={"rate": rate})
        settings = settings.model_copy(update={"members": known})
    return targets(settings, recent(settings, measured))


def drawn(
    settings: Settings, chosen: Sequence[str], shape: kinds.Shape, seed: int
) -> list[Material]:
    """Draw a stream of each kind, for the capacity of the settings' consumers."""
    found = []
    for kind in chosen:
        speeds, step = kinds.draw(kind, replace(shape, capacity=settings.capacity), seed)
        names = [TopicPartition("drawn", j) for j in range(speeds.shape[1])]
        found.append(Material(kind, names, speeds, step))
    return found


def named(partitions: Sequence[str]) -> list[TopicPartition]:
    """Return the columns of a stream as partitions, whatever they are called."""
    pairs = [name.rpartition(":") for name in partitions]
    if all(topic and number.isdigit() for topic, _, number in pairs):
        return [TopicPartition(topic, int(number)) for topic, _, number in pairs]
    return [TopicPartition(name, 0) for name in partitions]


def of_first_release(settings: Settings, algorithm: str = FIRST) -> Policy:
    """Return the policy of 0.1.0's defaults, for the same consumers."""
    return replace(
        controller.policy(settings),
        pack=pack_by(algorithm),
        capacity=capacity(settings.max_rate, 30, 5),
        iteration=30,
        pause=10,
        catch_up=60,
        max_rate=0,
        dead_band=0,
        shrink_after=0,
        max_move=1,
    )


def follow(
    way: str, settings: Settings, material: Material, told: Callable[[int], None] = lambda _: None
) -> rules.Outcome:
    """Follow a stream in one of the ways."""
    if way not in WAYS:
        raise WrongInput(f'unknown way "{way}": choose from {", ".join(WAYS)}')
    rebalance = settings.controller.rebalance
    if rebalance > material.step:
        raise WrongInput(
            f"controller.rebalance is {rebalance:g} s, longer than the {material.step:g} s between "
            "two rows: take a larger --step"
        )
    model = latency.Model(settings.max_rate, material.step, rebalance)
    group: rules.Group
    if way == "keda":
        enough = math.ceil(float(material.speeds[0].sum()) / settings.capacity)
        columns = material.speeds.shape[1]
        group = rules.Scaled(Keda("cooperative"), settings.max_rate, columns, enough)
    elif way in ("0.1.0", "mwf"):
        chosen = of_first_release(settings, FIRST if way == "0.1.0" else way)
        group = rules.Controlled(chosen, material.partitions)
    else:
        group = rules.Controlled(controller.policy(settings), material.partitions)
    return rules.follow(group, model, material.speeds, way == "clairvoyant", told)


def figures(outcome: rules.Outcome) -> dict[str, float]:
    """Return an outcome in numbers; p50 … p99 are of late bytes, delay_p99 is of all."""
    late, hours = outcome.late, outcome.seconds / 3600
    return {
        "bytes": outcome.bytes,
        "late_bytes": late.total,
        "late_share": late.total / outcome.bytes if outcome.bytes else 0.0,
        **{f"p{q}": late.quantile(q / 100) for q in QUANTILES},
        "max": late.max,
        "delay_p99": outcome.delay(0.99),
        "consumer_hours": outcome.consumer_seconds / 3600,
        "consumers": outcome.consumer_seconds / outcome.seconds,
        "reassignments_per_hour": outcome.reassignments / hours,
        "moves_per_hour": outcome.moves / hours,
        "moved_bytes": outcome.moved_bytes,
        "backlog_at_end": outcome.backlog,
    }


DELAYS = (2.0, 5.0, 10.0, 20.0, 60.0, 300.0)
"""The targets that are compared, in seconds."""


def with_delay(settings: Settings, delay: float) -> Settings:
    """Return the settings with another target; what was set by hand stays."""
    controller = settings.controller
    by_hand = controller.model_dump(include=set(controller.model_fields_set)) | {"delay": delay}
    return settings.model_copy(update={"controller": type(controller).model_validate(by_hand)})


def targets(
    settings: Settings, material: Material, told: Callable[[str, int, int], None] = lambda *_: None
) -> list[dict[str, Any]]:
    """Return what each target for the delay costs on a stream: delays against consumers."""
    own = settings.controller.delay
    found = []
    for delay in sorted({*DELAYS, own or DELAYS[0]}):
        doing = f"a delay of {delay:g} s"
        aimed = with_delay(settings, delay)
        outcome = follow("lagless", aimed, material, _each(told, doing, material.rows))
        found.append({"delay": delay, "chosen": delay == own, **figures(outcome)})
    return found


def distance(found: dict[str, dict[str, float]]) -> dict[str, float] | None:
    """Return how far lagless is from the clairvoyant: what it has more, as a share of the bytes."""
    if not {"lagless", "clairvoyant"} <= found.keys():
        return None
    ours, best = found["lagless"], found["clairvoyant"]
    return {
        "late_share": ours["late_share"] - best["late_share"],
        "consumer_hours": ours["consumer_hours"] / best["consumer_hours"] - 1,
        "delay_p99": ours["delay_p99"] - best["delay_p99"],
    }


def run(
    settings: Settings,
    materials: Sequence[Material],
    ways: Sequence[str],
    told: Callable[[str, int, int], None] = lambda *_: None,
) -> Iterator[dict[str, Any]]:
    """Follow each stream in each way; `told` hears the stream and way, the rows done, and all."""
    for material in materials:
        found = {}
        for way in ways:
            doing = f"{material.name}, {way}"
            told(doing, 0, material.rows)
            outcome = follow(way, settings, material, _each(told, doing, material.rows))
            found[way] = figures(outcome)
        yield {
            "stream": material.name,
            "partitions": len(material.partitions),
            "hours": material.rows * material.step / 3600,
            "step": material.step,
            "mean_rate": float(np.mean(material.speeds.sum(axis=1))),
            "ways": found,
            # The first measurement is where a replay begins; what is written after it counts.
            "least_consumer_hours": least.consumer_hours(
                material.speeds[1:], settings.max_rate, material.step
            ),
            "distance": distance(found),
        }


def _each(told: Callable[[str, int, int], None], doing: str, rows: int) -> Callable[[int], None]:
    def tell(done: int) -> None:
        if done % 50 == 0 or done == rows:
            told(doing, done, rows)

    return tell
