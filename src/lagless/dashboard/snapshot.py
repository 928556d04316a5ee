"""What the page shows at one moment: the values that `view` computes and the page draws. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, Self

from lagless.dashboard.decisions import Level, Line, Reassignment, Timing
from lagless.dashboard.story import Lag
from lagless.model import Consumer, TopicPartition

Condition = Literal["starting", "ready", "waiting", "ending", "silent", "lost"]


@dataclass(frozen=True, slots=True)
class Link:
    """The connection to Kafka."""

    heard: bool = False
    """Whether anything was ever read."""
    trouble: str = ""
    """What is wrong; nothing while it works."""


@dataclass(frozen=True, slots=True)
class Block:
    """A partition as a block in its consumer's bin."""

    partition: TopicPartition
    speed: float
    measured: bool = True
    stale: bool = False
    backlog: float | None = None
    target: Consumer | None = None
    """Where it is to go, if that is not where it is."""


@dataclass(frozen=True, slots=True)
class Bin:
    """A consumer and what it holds."""

    consumer: Consumer
    condition: Condition
    blocks: tuple[Block, ...]
    load: float
    silence: float
    """Seconds since it was last heard."""
    lag_seconds: float = 0
    lag_bytes: float = 0
    lag_records: int = 0
    bytes_per_second: float = 0
    cycle_seconds: float = 0
    waiting_for: str = ""
    trouble: str = ""

    @property
    def well(self) -> bool:
        """Say whether it does what it should."""
        return self.condition not in ("silent", "lost")


@dataclass(frozen=True, slots=True)
class Notice:
    """A sentence about something that is not as it should be."""

    level: Level
    text: str


@dataclass(frozen=True, slots=True)
class Moment:
    """A point of the lines over time."""

    at: float
    speeds: Mapping[TopicPartition, float]
    consumers: int
    plain_kafka: int
    bound: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that the page shows at one moment."""

    now: float
    group: str
    capacity: float
    max_rate: float
    algorithm: str
    slack: float
    link: Link
    speeds: Mapping[TopicPartition, float]
    speeds_age: float | None
    """Seconds since the monitor's last measurement; None if there was none."""
    speeds_stale: bool
    phase: str
    """The controller's phase; "" if it never said."""
    phase_age: float | None
    controller_age: float | None
    """Seconds since the controller last said anything; None if it never did."""
    controller_stale: bool
    bins: tuple[Bin, ...]
    unassigned: tuple[Block, ...]
    plain_kafka: int
    reassignments: tuple[Reassignment, ...]
    lines: tuple[Line, ...]
    timings: tuple[Timing, ...]
    notices: tuple[Notice, ...]
    moments: tuple[Moment, ...]
    lags: Mapping[Consumer, tuple[Lag, ...]]

    def noticing(self, notices: tuple[Notice, ...]) -> Self:
        """Give the same with notices on it."""
        return replace(self, notices=notices)

    @property
    def total(self) -> float:
        """Everything that is written, in bytes/s."""
        return sum(self.speeds.values())

    @property
    def held(self) -> dict[TopicPartition, Consumer]:
        """Who reads what."""
        return {block.partition: one.consumer for one in self.bins for block in one.blocks}

    @property
    def lag(self) -> float:
        """The largest lag of all consumers, in seconds."""
        return max((one.lag_seconds for one in self.bins), default=0.0)

    @property
    def empty(self) -> bool:
        """Say whether nothing at all is known yet."""
        return not (self.speeds or self.bins or self.lines)
