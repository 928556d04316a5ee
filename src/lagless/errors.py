"""The errors of lagless, named by the reaction that they call for.

    LaglessError
    ├── WrongInput          fix the input (also a ValueError; exit status 2)
    │   └── WrongSettings   fix the settings: names the file, the key and what is expected
    ├── MissingPart         install something: the message says what and how
    ├── TryAgain            temporary failure: the same call may succeed later
    │   ├── NotYet          the opposite operation is still running: wait for it
    │   ├── Away            Kafka, Spark, the lake or the registry does not answer: wait for it
    │   └── TooMuch         retry with half of it
    └── GiveUp              retrying does not help
        ├── Fenced          another controller leads: stand by
        ├── ClaimLost       another consumer owns the partition: drop it
        └── DataLost        Kafka deleted records before they were read: names the range

Every message is one sentence that says what is wrong and what is expected.
"""

from collections.abc import Hashable, Iterable
from typing import Literal


class LaglessError(Exception):
    """Anything that lagless raises on purpose."""


class WrongInput(LaglessError, ValueError):
    """The caller's input is invalid."""


class WrongSettings(WrongInput):
    """A setting is unknown, missing or invalid."""


class MissingPart(LaglessError):
    """Something has to be installed first."""


class TryAgain(LaglessError):
    """A temporary failure: the same call may succeed later."""


class NotYet(TryAgain):
    """The opposite operation is still running."""


class Away(TryAgain):
    """One of "spark", "kafka", "lake" or "registry" does not answer."""

    def __init__(self, sentence: str, part: Literal["spark", "kafka", "lake", "registry"]) -> None:
        super().__init__(sentence)
        self.part = part


class TooMuch(TryAgain):
    """Too much was requested at once: half of it may succeed."""


class GiveUp(LaglessError):
    """Retrying does not help."""


class Fenced(GiveUp):
    """Another controller has taken over."""


class ClaimLost(GiveUp):
    """Another consumer has claimed the partition under a higher generation."""

    def __init__(self, sentence: str, partitions: Iterable[Hashable] = (), owner: int = 0) -> None:
        super().__init__(sentence)
        self.partitions = frozenset(partitions)
        """The partitions (model.TopicPartition) that are lost; none named: all."""
        self.owner = owner
        """The highest generation that was found."""


class DataLost(GiveUp):
    """Kafka deleted records before they were read."""
