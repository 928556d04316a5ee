"""What the tests of the evaluation share."""

from pathlib import Path

import pytest

from tests.lab.paper import drawn


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder as `evaluate paper` leaves it, drawn once for all tests."""
    out = tmp_path_factory.mktemp("published")
    drawn.publish(out)
    return out
