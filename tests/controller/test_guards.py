"""Without any one of its guards the group goes wrong in some history."""

import logging

import pytest

from tests.controller import guards


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("guard", guards.GUARDS, ids=lambda guard: guard.name)
def test_a_guard_is_missed(guard: guards.Guard) -> None:
    logging.disable()
    try:
        count, wrong = guards.search(guard, guards.COUNT)
    finally:
        logging.disable(logging.NOTSET)
    assert wrong, f"{count} histories went well without the guard"
