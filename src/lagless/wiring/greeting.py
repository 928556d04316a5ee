"""A role's first words with Kafka, before it loads the libraries that take seconds."""

from collections.abc import Callable

from lagless import extras
from lagless.settings import Settings

with extras.needed("kafka"):
    from lagless.adapters.kafka import contact


def greet(settings: Settings, tell: Callable[[str], None]) -> None:
    """Raise GiveUp if Kafka rejects the credentials; if nobody answers, say so and go on."""
    contact.greet(settings.kafka, tell)
