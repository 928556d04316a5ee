"""The report: one file, opened in a real browser, with everything in it."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lagless.lab import report
from lagless.lab.paper import figures

if TYPE_CHECKING:
    from selenium.webdriver import Chrome


@pytest.fixture(scope="module")
def page(published: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Alone in a folder of its own: nothing beside it can help.
    alone = tmp_path_factory.mktemp("alone") / "report.html"
    shutil.copy(published / "report.html", alone)
    return alone


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Chrome]":
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
        f"--user-data-dir={tmp_path_factory.mktemp('chromium')}",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    opened = webdriver.Chrome(options=options, service=service)
    yield opened
    opened.quit()


@pytest.mark.browser
def test_the_report_shows_everything_in_a_browser(page: Path, browser: "Chrome") -> None:
    browser.get(page.as_uri())
    assert browser.title == "lagless: the paper's experiments"
    widths = browser.execute_script(
        "return Array.from(document.images).map(i => i.complete ? i.naturalWidth : 0)"
    )
    assert len(widths) == len(figures.CAPTIONS)
    assert min(widths) > 300
    fetched = browser.execute_script(
        "return performance.getEntriesByType('resource').map(e => e.name)"
        ".filter(n => !n.startsWith('data:'))"
    )
    assert fetched == []
    assert browser.get_log("browser") == []  # type: ignore[no-untyped-call]  # selenium has no type for it
    text = browser.execute_script("return document.body.innerText")
    for wanted in (
        "Settings",
        "Versions",
        "pyspark",
        "E(Rscore) by δ",
        "mbfp",
        "kd_27",
        "keda_range",
    ):
        assert wanted in text
    assert len(browser.find_elements("tag name", "table")) == 9


def test_tables_escape_what_they_show() -> None:
    table = report.Table("<b>", ("a|b",), [["1 < 2 | `x`"]])
    assert "\\|" in report.markdown(table)
    facts = report.Table("Facts", ("", ""), [("k", "<script>")])
    shown = report.page("A page", [report.Section("", ["<script>"], [table, facts])], Path("."), {})
    assert "<script>" not in shown
    assert "1 &lt; 2 | <code>x</code>" in shown
