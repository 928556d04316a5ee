"""Figures: all there, in both forms, with units, and in colours that everyone can tell apart."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lagless.lab.paper import experiments, figures
from tests.lab.paper import drawn


@pytest.fixture(scope="module")
def folder(published: Path) -> Path:
    return published / "figures"


UNITS = {
    "cbs": "fewest (%)",
    "cbs-modified": "fewest (%)",
    "rscore": "E(Rscore) (C)",
    "pareto-5": "fewest (%)",
    "pareto-25": "E(Rscore) (C)",
    "latency-histogram": "latency (s)",
    "cost": "consumers, mean",
    "late-bytes": "share of all bytes (%)",
    "latency-boxes": "late bytes (s)",
    "streams-p90": "late bytes (s)",
    "streams-late": "above 0 (%)",
}


@pytest.mark.parametrize("name", figures.CAPTIONS)
def test_a_figure_has_both_forms_and_units(folder: Path, name: str) -> None:
    assert UNITS[name] in (folder / f"{name}.svg").read_text("utf-8")
    with Image.open(folder / f"{name}.png") as image:
        assert image.width > 800
        assert len(image.convert("L").getcolors() or ()) > 10


def test_labels_name_the_algorithms(folder: Path) -> None:
    front = (folder / "pareto-5.svg").read_text("utf-8")
    assert all(
        f">{name}<" in front
        for name in ("mwf", "mbfp", "nfd", "Pareto front of the paper's twelve")
    )
    boxes = (folder / "latency-boxes.svg").read_text("utf-8")
    assert ">kd_32<" not in boxes
    assert ">kd_15<" in boxes
    assert ">keda_range<" in boxes


def test_the_same_numbers_draw_the_same_figure(folder: Path, tmp_path: Path) -> None:
    figures.rscore(tmp_path, experiments.mean(drawn.scores(), "rscore"))
    assert (tmp_path / "rscore.svg").read_bytes() == (folder / "rscore.svg").read_bytes()


# How the three kinds of dichromats see linear RGB (Viénot, Brettel, Mollon 1999; tritan after
# Brettel 1997, one half-plane).
KINDS = {
    "normal": np.eye(3),
    "protan": np.array([[0.11238, 0.88762, 0], [0.11238, 0.88762, 0], [0.00401, -0.00401, 1]]),
    "deutan": np.array([[0.29275, 0.70725, 0], [0.29275, 0.70725, 0], [-0.02234, 0.02234, 1]]),
    "tritan": np.array([[1.01277, 0.13548, -0.14826], [-0.01243, 0.86812, 0.14431],
                        [0.07589, 0.805, 0.11911]]),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_colours_differ_for_everyone(kind: str) -> None:
    def seen(colour: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        rgb = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]) ** 2.2
        return np.clip(KINDS[kind] @ rgb, 0, 1) ** (1 / 2.2)

    used = {colour for colour, _, _ in figures.STYLES.values()}
    for one, other in itertools.combinations(sorted(used), 2):
        assert np.abs(seen(one) - seen(other)).max() > 0.1, (one, other)


def test_no_two_algorithms_look_the_same() -> None:
    assert len(set(figures.STYLES.values())) == len(figures.STYLES)
