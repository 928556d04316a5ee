"""Rejects: why records were rejected, which ones, and reading them again after a fix."""

import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

from lagless import extras
from lagless.errors import WrongInput
from lagless.settings import Settings
from lagless.wiring import consumer as wiring

with extras.needed("kafka"):
    from lagless.adapters.kafka import contact
    from lagless.adapters.kafka.offsets import Offsets
with extras.needed("spark"):
    from lagless.adapters.lake import retries, store
    from lagless.adapters.lake.retries import Retried
    from lagless.adapters.lake.store import Store

SUFFIX = "_rejected"


def reasons(settings: Settings, topic: str | None) -> dict[str, Counter[str]]:
    """Count the rejects of each table by reason, or of one topic's table."""
    counts = {table: retries.reasons(place) for table, place in _tables(settings, topic)}
    return {table: count for table, count in counts.items() if count}


def records(
    settings: Settings, topic: str | None, reason: str | None, limit: int
) -> dict[str, list[dict[str, object]]]:
    """Return the first rejects of each table, or those whose reason contains a text."""
    return {
        table: retries.records(place, reason, limit) for table, place in _tables(settings, topic)
    }


def retry(settings: Settings, topic: str) -> Retried:
    """Read the rejects of a topic again; TryAgain or GiveUp where Kafka does not answer."""
    contact.reach(settings.kafka)
    if not settings.of_interest(topic):
        raise WrongInput(
            f"group {settings.group} does not read topic {topic}: see the setting `topics`"
        )
    with closing(Offsets(settings)) as offsets:
        known = offsets.topics([topic]).get(topic)
    if known is None:
        raise WrongInput(f"there is no topic {topic} at {settings.kafka.bootstrap}")
    lake = wiring.make_lake(settings)
    try:
        return lake.retry(known[0], lambda: secrets.randbits(60) + 1)
    finally:
        lake.close()


def _tables(settings: Settings, topic: str | None) -> Iterator[tuple[str, Store]]:
    """Yield each table that has rejects, with where these are."""
    lake = store.of(settings.lake)
    if topic is not None:
        place = lake.inside(settings.table_of(topic) + SUFFIX)
        if place.is_table():
            yield settings.table_of(topic), place
        return
    for place in store.chosen(lake, ()):
        if place.name.endswith(SUFFIX):
            yield place.name.removesuffix(SUFFIX), place
