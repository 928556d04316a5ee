"""The pages show the results of this code: each carries a fingerprint that the code still gives."""

import re
from datetime import date
from pathlib import Path
from typing import Any

import pytest

import lagless
from lagless.errors import WrongInput
from lagless.lab.model import replay
from lagless.lab.paper import figures, fingerprints, paper_run

DOCS = Path(__file__).parents[3] / "docs"
MADE_BY = {"paper": "lagless evaluate paper", "evaluation": "lagless evaluate paper"}


@pytest.mark.parametrize("page", fingerprints.PAGES)
def test_a_page_shows_the_results_of_this_code(page: str) -> None:
    text = (DOCS / f"{page}.md").read_text("utf-8")
    how = "the docstring of benchmarks/pages.py says how to make the page again"
    assert fingerprints.stamped(text) == (page, fingerprints.of(page)), how
    made = re.search(r"\*Made by `([^`]+)` with lagless ([0-9.]+\w*) on (\d{4}-\d\d-\d\d);", text)
    assert made
    assert made[1].startswith(MADE_BY.get(page, "python benchmarks/sticky.py"))
    assert date.fromisoformat(made[3]) >= date(2026, 11, 19)


@pytest.mark.parametrize("page", fingerprints.PAGES)
def test_another_result_is_another_fingerprint(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, run = fingerprints.of(page), replay.run

    def other(name: str, *how: Any, **more: Any) -> replay.Replay:
        found = run(name, *how, **more)
        if name.startswith("sticky"):
            found.consumers[-1] += 1
        return found

    assert fingerprints.of(page) == before
    monkeypatch.setattr(replay, "run", other)
    assert fingerprints.of(page) != before


def test_a_stamp_is_read_back() -> None:
    stamp = fingerprints.stamp("sticky", "a command", date(2026, 5, 31))
    assert f"with lagless {lagless.__version__} on 2026-05-31" in stamp
    assert fingerprints.stamped(f"# A page\n\n{stamp}\n") == ("sticky", fingerprints.of("sticky"))
    assert fingerprints.stamped("# A page\n") is None


def test_the_docs_have_every_figure_that_the_page_shows() -> None:
    text = (DOCS / "paper.md").read_text("utf-8")
    for name in figures.CAPTIONS:
        assert f"](img/{name}.svg)" in text
        assert (DOCS / "img" / f"{name}.svg").is_file()


def test_rows_of_other_code_are_not_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paper_run.claim(tmp_path)
    paper_run.claim(tmp_path)
    monkeypatch.setitem(fingerprints.PAGES, "paper", list)
    with pytest.raises(WrongInput, match="choose another folder"):
        paper_run.claim(tmp_path)
