"""Where the page's messages come from, as the page needs it."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from lagless.messages import Message


class Source(Protocol):
    """Messages of the group, as they arrive."""

    @property
    def heard(self) -> bool:
        """Say whether Kafka answered at least once."""
        ...

    @property
    def trouble(self) -> str:
        """Say what is wrong with the connection; "" while it works."""
        ...

    def read(self) -> Sequence[Message]:
        """Give what arrived since the last call, without waiting."""
        ...


class Handed:
    """A source that is handed its messages: for tests, and for looking at what was recorded."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._messages = list(messages)
        self.heard = True
        self.trouble = ""

    def hand(self, *messages: Message) -> None:
        """Add messages, which the next `read` gives."""
        self._messages.extend(messages)

    def read(self) -> Sequence[Message]:
        """Give what was handed over since the last call."""
        messages, self._messages = self._messages, []
        return messages
