"""Look at any consumer group for a while: speeds, lags, who holds what, and how fast members read.

It only describes: nothing joins the group, and nothing is written or changed. Describe on the
cluster, the group and its topics is enough.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Event

from lagless import extras
from lagless.controller.group import learning
from lagless.controller.group.learning import Learning
from lagless.errors import GiveUp, TryAgain, WrongInput
from lagless.group_ports import GroupMember, Membership
from lagless.model import Speeds, TopicPartition
from lagless.monitor.window import Window
from lagless.ports import Clock
from lagless.settings import Settings

with extras.needed("kafka"):
    from lagless.adapters.kafka.group_members import GroupWatch
    from lagless.adapters.kafka.log_sizes import LogSizes

TICK = 2.0
"""Seconds between two looks at most."""
STEPS = 10
"""Rows that even a short survey has, if a rebalance fits into their step."""
PATIENCE = 30.0
"""Seconds of trouble in a row after which a survey ends."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is to be surveyed."""

    group: Membership
    topics: tuple[str, ...]
    """Those that members hold; without members, those that the group has offsets for."""
    left_out: tuple[str, ...]
    """Topics that the group has offsets for, and that no member holds."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What a survey found; speeds and holders have a row per step."""

    group: Membership
    """At the last look."""
    seconds: float
    step: float
    """Seconds between two rows."""
    partitions: tuple[TopicPartition, ...]
    """The order of each row."""
    speeds: tuple[tuple[float, ...], ...]
    holders: tuple[tuple[str, ...], ...]
    """Names of members; "" where nobody held the partition in the whole survey."""
    lag: Mapping[TopicPartition, float]
    """Bytes behind the committed offsets at the last look."""
    learned: Learning
    """How fast members read, with a backlog and without."""


def subject(settings: Settings) -> Subject:
    """Return what the settings' group reads."""
    group = settings.group
    watch = GroupWatch(settings.kafka, group)
    described = watch.wait_described()
    committed = {p.topic for p in watch.committed()}
    held = {p.topic for member in described.members for p in member.held}
    if not described.exists and not committed:
        names = watch.names()
        known = f"groups there: {', '.join(names[:20])}" if names else "no group is visible there"
        raise WrongInput(f"there is no group {group} at {settings.kafka.bootstrap}; {known}")
    if not held and not committed:
        raise GiveUp(f"group {group} ({described.state}) reads no topic and has no offsets yet")
    read = held or committed
    return Subject(described, tuple(sorted(read)), tuple(sorted(committed - read)))


class Surveyor:
    """Looks at the settings' group and topics for so many seconds."""

    def __init__(self, settings: Settings, seconds: float, clock: Clock) -> None:
        self._settings = settings
        self._seconds = seconds
        self._clock = clock
        self._watch = GroupWatch(settings.kafka, settings.group)
        self._sizes = LogSizes(settings)
        self._window = Window(settings.monitor.window, settings.monitor.detect_changes)
        self._densities: dict[TopicPartition, float] = {}
        self._learned = Learning()
        self._looked: list[float] = []
        self._lag: dict[TopicPartition, float] = {}
        self._holders: dict[TopicPartition, str] = {}
        self._rows: list[tuple[Speeds, Mapping[TopicPartition, str]]] = []
        self._group: Membership | None = None

    @property
    def step(self) -> float:
        """Return the seconds between two rows: an iteration, or less in a short survey."""
        controller = self._settings.controller
        return min(controller.iteration, max(2 * controller.rebalance, self._seconds / STEPS))

    def run(self, ending: Event, tell: Callable[[float], None]) -> Survey:
        """Look until the time is over or `ending` is set, and return what was found."""
        began = healthy = self._clock.now()
        # The first row comes as soon as there are speeds.
        due = began + 2 * TICK
        tick = min(TICK, self._settings.monitor.interval)
        try:
            while not ending.is_set() and (now := self._clock.now()) - began < self._seconds:
                try:
                    speeds = self._look(now)
                    healthy = now
                except TryAgain:
                    self._window.miss()
                    if now - healthy > PATIENCE:
                        raise
                    speeds = {}
                if speeds and now >= due:
                    self._rows.append((speeds, self._holders))
                    due += self.step
                tell(now - began)
                self._clock.sleep(max(0.0, now + tick - self._clock.now()))
        finally:
            self._sizes.close()
        return self._survey()

    def _look(self, now: float) -> Speeds:
        """Look once, and return the speeds that are known."""
        measurement = self._sizes.measure()
        if not measurement.sizes:
            raise GiveUp(_no_sizes(self._settings))
        self._window.add(measurement)
        committed = self._watch.committed()
        self._group = self._watch.describe()
        readings = self._window.readings()
        self._densities |= {
            p: reading.bytes_per_offset
            for p, reading in readings.items()
            if reading.bytes_per_offset is not None
        }
        speeds = {p: reading.speed for p, reading in readings.items()}
        ends = {p: size.end_offset for p, size in measurement.sizes.items()}
        self._lag = {
            p: max(0, end - committed[p]) * self._densities.get(p, 0.0)
            for p, end in ends.items()
            if p in committed
        }
        self._holders = {p: m.name for m in self._group.members for p in m.held if p in ends}
        looks = {m.name: self._member(now, m, committed, speeds) for m in self._group.members}
        self._learned = learning.look(self._learned, looks)
        self._looked.append(now)
        return speeds

    def _member(
        self,
        now: float,
        member: GroupMember,
        committed: Mapping[TopicPartition, int],
        speeds: Speeds,
    ) -> learning.Look:
        """Return how far a member is in what it holds."""
        return learning.seen(
            now,
            member.held,
            committed,
            self._lag,
            self._densities,
            speeds,
            self._learned.lately.get(member.name, 0.0),
        )

    def _survey(self) -> Survey:
        if self._group is None or not self._rows:
            raise GiveUp("the survey ended before there were two measurements: set more --minutes")
        partitions = tuple(sorted({p for speeds, _ in self._rows for p in speeds}))
        return Survey(
            group=self._group,
            seconds=self._looked[-1] - self._looked[0],
            step=self.step,
            partitions=partitions,
            speeds=tuple(tuple(speeds.get(p, 0.0) for p in partitions) for speeds, _ in self._rows),
            holders=_holders(partitions, [holders for _, holders in self._rows]),
            lag={p: lag for p, lag in self._lag.items() if lag > 0},
            learned=self._learned,
        )


def _holders(
    partitions: Sequence[TopicPartition], rows: Sequence[Mapping[TopicPartition, str]]
) -> tuple[tuple[str, ...], ...]:
    """Return rows of holders; while nobody holds a partition, it counts for the last who did."""
    current = {p: next((row[p] for row in rows if p in row), "") for p in partitions}
    filled = []
    for row in rows:
        current |= {p: name for p, name in row.items() if p in current}
        filled.append(tuple(current[p] for p in partitions))
    return tuple(filled)


def _no_sizes(settings: Settings) -> str:
    security = settings.kafka.security
    user = security.username or security.client_id or "ANONYMOUS"
    return (
        f"no broker at {settings.kafka.bootstrap} reported the sizes of the logs of "
        f"{', '.join(settings.topics)}: Describe on the cluster may be missing (kafka-acls.sh "
        f"--add --allow-principal User:{user} --operation Describe --cluster)"
    )
