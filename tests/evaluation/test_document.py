"""The page on the paper: what it points to is there."""

import re
from pathlib import Path

import lagless
from lagless.evaluation import document
from tests.evaluation import drawn

SOURCE = Path(lagless.__file__).parent


def test_every_file_and_name_that_the_page_points_to_is_there() -> None:
    page = document.write(drawn.PLAN, drawn.found())
    files = set(re.findall(r"\b[a-z_/]+\.py\b", page))
    assert len(files) > 10
    for file in files:
        assert (SOURCE / file).is_file(), file
    pointed = re.findall(r"((?:`\w+`(?:, | and )?)+) in ([a-z_/]+\.py)", page)
    assert len(pointed) > 10
    for names, file in pointed:
        text = (SOURCE / file).read_text("utf-8")
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"^(def|class) {name}\b", text, re.MULTILINE), (name, file)


def test_the_page_has_every_claim_with_its_verdict() -> None:
    page = document.write(drawn.PLAN, drawn.found())
    for claim in drawn.found():
        assert claim.says in page
        assert f"| {claim.verdict} |" in page
    assert len(drawn.found()) >= 20


def test_every_figure_is_listed() -> None:
    from lagless.evaluation import report

    listed = {name for _, names in document.FIGURES for name in names.split(", ")}
    assert listed == set(report.CAPTIONS)
