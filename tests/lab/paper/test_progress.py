"""The progress bar: shown on a terminal with the time left, and silent elsewhere."""

import io

import pytest
from rich.console import Console

from lagless.cli import options
from lagless.lab.paper.grid import Progress


def shown(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> str:
    text = io.StringIO()
    monkeypatch.setattr(options, "notes", Console(file=text, force_terminal=terminal, width=100))
    with options.bars() as told:
        told("grid", Progress(0, 0, 288))
        told("grid", Progress(100, 0, 288))
        told("latency", Progress(20, 0, 20))
    return text.getvalue()


def test_a_terminal_sees_cells_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    text = shown(monkeypatch, terminal=True)
    assert "grid" in text
    assert "100/288" in text
    assert "left" in text
    assert "20/20" in text


def test_a_pipe_sees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, terminal=False).strip() == ""
