"""Begin at another place of a topic: see adapters.lake.resets for what makes it safe."""

import secrets
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from lagless import extras
from lagless.consumer.orders import Claims
from lagless.errors import TryAgain, WrongInput
from lagless.model import TopicPartition
from lagless.ports import Bounds, Topic
from lagless.settings import Settings
from lagless.wiring import consumer as wiring

with extras.needed("kafka"):
    from lagless.adapters.kafka import contact
    from lagless.adapters.kafka.offsets import Offsets

Rows: TypeAlias = Literal["keep", "remove"]
Place: TypeAlias = Literal["earliest", "latest"] | int | datetime


@dataclass(frozen=True, slots=True)
class Move:
    """Where a partition was and where it begins next."""

    before: int | None
    """The next offset before; None if the group has never read the partition."""
    to: int
    again: int
    """Offsets that are read again."""
    skipped: int
    """Offsets that are not read any more."""
    rows: int
    """Rows that the table has from `to` on."""


def place(text: str) -> Place:
    """Return what --to means: earliest, latest, an offset, or a time."""
    if text in ("earliest", "latest"):
        return "earliest" if text == "earliest" else "latest"
    if text.isdigit():
        return int(text)
    try:
        # Without a zone it is this machine's.
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        raise WrongInput(
            f"--to {text}: expected earliest, latest, an offset such as 1200, or a time such as "
            "2026-05-31T06:00:00Z"
        ) from None


class Reset:
    """A topic of the settings' group, to be read from another place."""

    def __init__(self, settings: Settings, offsets: Offsets, topic: str) -> None:
        self._lake = wiring.make_lake(settings)
        self._offsets = offsets
        self._claims = Claims(offsets, self._lake, settings.consumer.start)
        self._group = settings.group
        if not settings.of_interest(topic):
            raise WrongInput(
                f"group {settings.group} does not read topic {topic}: see the setting `topics`"
            )
        known = offsets.topics([topic]).get(topic)
        if known is None:
            raise WrongInput(f"there is no topic {topic} at {settings.kafka.bootstrap}")
        self.topic: Topic = known[0]
        self._count = known[1]

    def plan(self, to: Place, numbers: Collection[int] = ()) -> dict[TopicPartition, Move]:
        """Return what a reset would do to these partitions, or to all; it changes nothing."""
        for number in numbers:
            if number >= self._count:
                raise WrongInput(
                    f"topic {self.topic.name} has {self._count} partitions and no {number}"
                )
        chosen = sorted(set(numbers)) or range(self._count)
        partitions = [TopicPartition(self.topic.name, number) for number in chosen]
        bounds = self._offsets.bounds(partitions)
        missing = [p for p in partitions if p not in bounds]
        if missing:
            raise TryAgain(f"Kafka does not say where {missing[0]} begins and ends")
        targets = self._targets(to, bounds)
        now = self._lake.stand(self.topic, partitions)
        rows = self._lake.rows(self.topic, targets)
        moves = {}
        for p, target in targets.items():
            before = now[p].offset if p in now else None
            at = bounds[p].earliest if before is None else before
            moves[p] = Move(before, target, max(0, at - target), max(0, target - at), rows[p])
        return moves

    def run(self, moves: Mapping[TopicPartition, Move], rows: Rows) -> int:
        """Carry a plan out, and return how many rows were removed."""
        new = [p for p, move in moves.items() if move.before is None]
        if new:
            # So that partitions which are not named begin where the settings say.
            self._claims.claim(self.topic.name, new, None)
        to = {p: move.to for p, move in moves.items()}
        removed = self._lake.reset(self.topic, to, rows == "remove", secrets.randbits(60))
        with suppress(TryAgain):  # for people and tools; whoever reads next commits it too
            self._offsets.commit(to)
        return removed

    def _targets(
        self, to: Place, bounds: Mapping[TopicPartition, Bounds]
    ) -> dict[TopicPartition, int]:
        if to == "earliest":
            return {p: bound.earliest for p, bound in bounds.items()}
        if to == "latest":
            return {p: bound.end for p, bound in bounds.items()}
        if isinstance(to, datetime):
            found = self._offsets.at_time(bounds, to.timestamp())
            return {p: min(found.get(p, bound.end), bound.end) for p, bound in bounds.items()}
        for p, bound in bounds.items():
            if not bound.earliest <= to <= bound.end:
                raise WrongInput(
                    f"--to {to}: {p} has the offsets {bound.earliest} to {bound.end}; name "
                    "partitions that have this offset with --partitions"
                )
        return dict.fromkeys(bounds, to)


@contextmanager
def of(settings: Settings, topic: str) -> Iterator[Reset]:
    """Yield the reset of a topic; TryAgain or GiveUp where Kafka does not answer."""
    contact.reach(settings.kafka)
    with closing(Offsets(settings)) as offsets:
        yield Reset(settings, offsets, topic)
