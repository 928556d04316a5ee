"""The ids that a topic's records have had: asked for once, bounded, and never guessed."""

import pytest

from lagless.adapters.lake.formats import registered
from lagless.adapters.lake.formats.registered import Met
from lagless.errors import Away, GiveUp, TooMuch
from lagless.ports import Schema

ORDER = Schema("AVRO", '"int"')


class Registry:
    """A registry in memory."""

    def __init__(self, *known: int) -> None:
        self.known = set(known)
        self.is_away = False

    def schema(self, number: int) -> Schema | None:
        if self.is_away:
            raise Away("the schema registry is away", "registry")
        return ORDER if number in self.known else None


def heads(*numbers: int) -> list[bytes]:
    return [b"\0" + number.to_bytes(4) for number in numbers]


def test_what_is_new_is_learnt_and_what_changed_too() -> None:
    registry = Registry(7)
    met = Met("orders", registry)
    assert met.meet(heads(9, 7))
    assert list(met.schemas.items()) == [(7, ORDER), (9, None)]
    assert not met.meet(heads(9, 7))
    registry.known.add(9)
    assert met.meet(heads(9))
    assert met.schemas[9] == ORDER


def test_a_registry_that_is_away_teaches_nothing() -> None:
    registry = Registry(7)
    registry.is_away = True
    met = Met("orders", registry)
    with pytest.raises(Away):
        met.meet(heads(7))
    assert met.schemas == {}
    with pytest.raises(GiveUp, match=r"topic orders: its format needs a schema registry: set reg"):
        Met("orders", None).meet(heads(7))


def test_ids_that_are_none_neither_pile_up_nor_make_a_cycle_endless() -> None:
    met = Met("orders", Registry(1))
    assert met.meet(heads(1))
    for first in range(1000, 4000, registered.MOST):
        some = range(first, first + registered.MOST)
        assert met.meet(heads(*some))
        assert len(met.schemas) <= 2 * registered.MOST + 1
        assert all(number in met.schemas for number in (1, *some))
    with pytest.raises(TooMuch, match="201 new schema ids in one cycle, more than 200"):
        met.meet(heads(*range(registered.MOST + 1)))
