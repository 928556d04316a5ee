"""What the page shows at one moment: `view` computes these values, the page draws them. Pure."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from lagless.dashboard.observations import Lag, Sample
from lagless.history import Reassignment
from lagless.model import Consumer, TopicPartition

Condition = Literal["starting", "ready", "spare", "waiting", "ending", "silent", "lost"]
Level = Literal["bad", "warn", "note"]


@dataclass(frozen=True, slots=True)
class Link:
    """The connection to Kafka."""

    heard: bool = False
    """Whether Kafka has answered at least once."""
    trouble: str = ""
    """What is wrong; "" while the connection works."""


@dataclass(frozen=True, slots=True)
class Block:
    """A partition as a block in its consumer's bin."""

    partition: TopicPartition
    speed: float
    measured: bool = True
    stale: bool = False
    backlog: float | None = None
    target: Consumer | None = None
    """The consumer that it will move to; None if it stays."""


@dataclass(frozen=True, slots=True)
class Bin:
    """A consumer and what it holds."""

    consumer: Consumer
    condition: Condition
    blocks: tuple[Block, ...]
    load: float
    silence: float
    """Seconds since its last message."""
    lag_seconds: float | None = 0
    """None where it is not known: of members that lagless did not write."""
    lag_bytes: float | None = 0
    lag_records: int | None = 0
    bytes_per_second: float | None = 0
    waiting_for: str = ""
    trouble: str = ""
    name: str = ""
    """What a member that lagless did not write is called."""

    @property
    def fine(self) -> bool:
        """Return whether the consumer reads, or could at once."""
        return self.condition in ("ready", "spare")

    @property
    def well(self) -> bool:
        """Return whether the consumer is neither silent nor lost."""
        return self.condition not in ("silent", "lost")


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence about a problem."""

    level: Level
    text: str


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the event log."""

    at: float
    what: str
    why: str
    level: Level


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a step of the response took the last time, and as a median."""

    name: str
    meaning: str
    last: float | None
    median: float | None
    count: int


@dataclass(frozen=True, slots=True)
class Cost:
    """What one target costs on the group's recent traffic."""

    delay: float
    """The target, in seconds."""
    chosen: bool
    """Whether it is the target that is set."""
    reached: float
    """Seconds of delay that 99 % of the bytes do not exceed."""
    late: float
    """Share of the bytes that wait for a consumer at all."""
    consumers: float
    """In the mean over time."""
    moves: float
    """Partitions that move, per hour."""


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of every target that was tried, or why there are none."""

    rows: tuple[Cost, ...] = ()
    seconds: float = 0.0
    """How much traffic was replayed."""
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that the page shows at one moment."""

    now: float
    group: str
    capacity: float
    """C; 0 while it is not known what a member that lagless did not write can read."""
    max_rate: float
    algorithm: str
    link: Link
    speeds: Mapping[TopicPartition, float]
    speeds_age: float | None
    """Seconds since the monitor's last measurement; None if there was none."""
    speeds_stale: bool
    phase: str
    """The controller's phase; "" if unknown."""
    phase_age: float | None
    mode: str
    """running, paused, draining or drained."""
    mode_by: str
    """Who asked for it; "" if nobody did."""
    controller_age: float | None
    """Seconds since the controller's last message; None if there was none."""
    controller_stale: bool
    bins: tuple[Bin, ...]
    unassigned: tuple[Block, ...]
    plain_kafka: int
    reassignments: tuple[Reassignment, ...]
    lines: tuple[Line, ...]
    timings: tuple[Timing, ...]
    notices: tuple[Notice, ...]
    moments: tuple[Sample, ...]
    lags: Mapping[Consumer, tuple[Lag, ...]]
    follows: bool | None = None
    """Whether members that lagless did not write hold what was planned; None without a plan."""
    costs: Costs = field(default_factory=Costs)
    """What other targets for the delay would cost."""
    limit: float = 0.0
    """The load above which a consumer is relieved; at least the capacity."""

    @property
    def total(self) -> float:
        """Return the sum of all write speeds, in bytes/s."""
        return sum(self.speeds.values())

    @property
    def held(self) -> dict[TopicPartition, Consumer]:
        """Return the consumer of each partition that is held."""
        return {block.partition: bin_.consumer for bin_ in self.bins for block in bin_.blocks}

    @property
    def empty(self) -> bool:
        """Return whether nothing is known yet."""
        return not (self.speeds or self.bins or self.lines)


def document(snapshot: Snapshot) -> dict[str, Any]:
    """Return what the page shows as JSON, without the lines over time."""
    return {
        "version": 1,
        "at": snapshot.now,
        "group": snapshot.group,
        **_of_capacity(snapshot),
        "algorithm": snapshot.algorithm,
        "kafka": asdict(snapshot.link),
        "speeds_age": snapshot.speeds_age,
        "phase": snapshot.phase,
        "mode": snapshot.mode,
        "mode_by": snapshot.mode_by,
        "controller_age": snapshot.controller_age,
        "consumers": {
            str(bin_.consumer): {
                **({"name": bin_.name} if bin_.name else {}),
                "state": bin_.condition,
                "load": bin_.load,
                **_lags(bin_),
                "silence": bin_.silence,
                "partitions": [_block(block) for block in bin_.blocks],
            }
            for bin_ in snapshot.bins
        },
        "unassigned": [_block(block) for block in snapshot.unassigned],
        "reassignments": [asdict(reassignment) for reassignment in snapshot.reassignments],
        "timings": {
            timing.name: {"last": timing.last, "median": timing.median}
            for timing in snapshot.timings
        },
        "targets": [asdict(cost) for cost in snapshot.costs.rows],
        "notices": [asdict(notice) for notice in snapshot.notices],
    }


def _of_capacity(snapshot: Snapshot) -> dict[str, float]:
    if not snapshot.capacity:
        return {}
    return {
        "capacity": snapshot.capacity,
        "max_rate": snapshot.max_rate,
        "plain_kafka": snapshot.plain_kafka,
    }


def _lags(bin_: Bin) -> dict[str, float]:
    lags = {"lag_seconds": bin_.lag_seconds, "lag_bytes": bin_.lag_bytes}
    return {name: lag for name, lag in lags.items() if lag is not None}


def _block(block: Block) -> dict[str, Any]:
    return asdict(block.partition) | {"speed": block.speed, "target": block.target}
