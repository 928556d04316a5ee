"""What can go wrong, named by the reaction that it calls for.

    LaglessError
    ├── WrongInput          mend what was given (also a ValueError; exit status 2)
    │   └── WrongSettings   mend the settings: names file, key and what would be right
    ├── MissingPart         install something: the sentence says what and how
    ├── TryAgain            passing trouble: the same call may succeed after a pause
    │   ├── NotYet          the opposite is still under way: wait for it to end
    │   ├── Away            a part of the world does not answer: wait for it, through no own fault
    │   └── TooMuch         half of it may succeed
    └── GiveUp              no repetition helps
        ├── Fenced          another controller acts: stand by
        ├── ClaimLost       another consumer owns the partition: drop it
        └── DataLost        Kafka deleted records before they were read: names the range

Every message is one sentence that names what is wrong and what would be right.
"""

from collections.abc import Iterable
from typing import Literal


class LaglessError(Exception):
    """Anything that lagless raises on purpose."""


class WrongInput(LaglessError, ValueError):
    """What the caller gave cannot be worked with."""


class WrongSettings(WrongInput):
    """A setting is unknown, missing or has a value that cannot be."""


class MissingPart(LaglessError):
    """Something has to be installed first."""


class TryAgain(LaglessError):
    """A passing trouble: the same call may succeed later."""


class NotYet(TryAgain):
    """The opposite of what was asked is still under way."""


class Away(TryAgain):
    """A part of the world does not answer: "spark", "kafka" or "lake"."""

    def __init__(self, sentence: str, part: Literal["spark", "kafka", "lake"]) -> None:
        super().__init__(sentence)
        self.part = part


class TooMuch(TryAgain):
    """What was asked for at once cannot be done: half of it may succeed."""


class GiveUp(LaglessError):
    """Trying again cannot help."""


class Fenced(GiveUp):
    """Another controller has taken over."""


class ClaimLost(GiveUp):
    """Another consumer has claimed the partition under a higher generation."""

    def __init__(self, sentence: str, partitions: Iterable[int] = (), owner: int = 0) -> None:
        super().__init__(sentence)
        self.partitions = frozenset(partitions)
        """The partitions of the topic in question that are lost; none named: all."""
        self.owner = owner
        """The highest generation that was found."""


class DataLost(GiveUp):
    """Kafka deleted records before they were read."""
