"""The page in a real browser, with scripted messages."""

import json
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from lagless.messages import Message
from lagless.model import TopicPartition
from tests.dashboard import plays
from tests.dashboard.conftest import Browser, Served, until

pytestmark = [pytest.mark.browser, pytest.mark.slow]
Serve = Callable[..., Served]

A, B, C = (TopicPartition("orders", n) for n in range(3))
SPEEDS = {A: 900_000.0, B: 600_000.0, C: 300_000.0}
NAMES = {partition: str(partition) for partition in SPEEDS}


def group() -> plays.Group:
    return plays.Group(plays.settings(heartbeat=1, lost_after=60))


def begin(page: Served, **to: int) -> plays.Group:
    """Start a group of three partitions; `a=1` gives partition A to consumer 1."""
    started = group()
    target = {p: to[letter] for letter, p in zip("abc", (A, B, C), strict=True)}
    now = time.time()
    page.send(
        plays.speeds(now, SPEEDS), *started.reassign(now - 10, SPEEDS, "not read yet", target)
    )
    page.send(*started.beats(now))
    return started


def test_it_shows_the_assignment_of_the_group(serve: Serve, browser: Browser) -> None:
    page = serve()
    begin(page, a=1, b=2, c=2)
    browser.open(page.address)
    caption = ".panel.group figcaption"
    until(lambda: "2 consumers for 3 partitions" in browser.text(caption), "both consumers")
    until(
        lambda: browser.columns() == {"1": [NAMES[A]], "2": [NAMES[B], NAMES[C]]},
        "the blocks stand in their consumers' bins",
    )
    shapes = browser.blocks()
    assert shapes[NAMES[A]]["height"] == pytest.approx(3 * shapes[NAMES[C]]["height"], rel=0.05)
    assert "Sentinel" in browser.text(".pills")
    assert browser.element(".machine .here text").text == "Sentinel"
    assert "not read yet" in browser.text(".log")
    with urllib.request.urlopen(page.address + "snapshot.json") as answer:
        document = json.load(answer)
    assert {n: len(consumer["partitions"]) for n, consumer in document["consumers"].items()} == {
        "1": 1,
        "2": 2,
    }


def test_a_block_travels_when_its_partition_moves(serve: Serve, browser: Browser) -> None:
    page = serve()
    running = begin(page, a=1, b=1, c=2)
    browser.open(page.address)
    first = {"1": [NAMES[A], NAMES[B]], "2": [NAMES[C]]}
    until(lambda: browser.columns() == first, "the first assignment")
    before = browser.blocks()
    browser.run(
        f"""
        window.unloaded = false;
        const chart = getElement(Number(document.querySelector(".chart-bins").id.slice(1))).chart;
        window.track = [];
        const look = () => {{
          const data = chart.getModel().getSeriesByIndex(1).getData();
          for (let i = 0; i < data.count(); i++)
            if (data.getName(i) === "{B}") window.track.push(data.getItemGraphicEl(i).shape.x);
          if (window.track.length < 5000) requestAnimationFrame(look);
        }};
        look();
        """
    )
    now = time.time()
    page.send(*running.reassign(now, SPEEDS, "consumer 1 has too much", {A: 1, B: 2, C: 2}))
    page.send(*running.beats(now))
    until(
        lambda: browser.columns() == {"1": [NAMES[A]], "2": [NAMES[B], NAMES[C]]},
        "the block is in the other bin",
    )
    start, end = before[NAMES[B]]["x"], browser.blocks()[NAMES[B]]["x"]
    on_the_way = [x for x in browser.run("return window.track") if start + 2 < x < end - 2]
    assert end > start
    assert on_the_way, "the block jumped"
    until(lambda: "1 move" in browser.text(".tiles"), "the move is counted")
    assert "consumer 1 has too much" in browser.text(".log")
    assert browser.run("return window.unloaded") is False, "the page was reloaded"


def test_blocks_do_not_glide_when_reduced_motion_is_preferred(
    serve: Serve, browser: Browser
) -> None:
    browser.prefer(prefers_reduced_motion="reduce")
    page = serve()
    begin(page, a=1, b=1, c=2)
    browser.open(page.address)
    script = """
        const id = Number(document.querySelector(".chart-bins").id.slice(1));
        return getElement(id).chart.getOption().animation;
    """
    until(lambda: browser.run(script) is False, "the chart stands still")


def test_a_killed_consumer_shows(serve: Serve, browser: Browser) -> None:
    page = serve()
    running = begin(page, a=1, b=2, c=2)
    browser.open(page.address)

    def shows(words: str, selector: str, *killed: int) -> bool:
        page.send(*running.beats(time.time(), silent=killed))
        time.sleep(0.5)
        return words in browser.text(selector)

    until(lambda: shows("all healthy", ".tiles"), "all consumers are healthy")
    killed = time.monotonic()
    until(lambda: shows("Consumer 2 is silent", ".notices", 2), "consumer 2 is silent")
    took = time.monotonic() - killed
    assert "1 silent or lost" in browser.text(".tiles")
    assert "silent" in browser.text(".each tbody tr:nth-child(2)")
    assert "ready" in browser.text(".each tbody tr:nth-child(1)")
    print(f"a killed consumer showed after {took:.1f} s")
    # Its partitions go to the other, and its blocks with them.
    page.send(*running.reassign(time.time(), SPEEDS, "consumer 2 is lost", {A: 1, B: 1, C: 1}))
    reads = ".each tbody tr:nth-child(1) td:nth-child(4)"
    until(lambda: shows("3", reads), "consumer 1 has taken over")


def test_a_group_without_messages_says_so(serve: Serve, browser: Browser) -> None:
    page = serve()
    browser.open(page.address)
    until(lambda: "No data yet" in browser.text(".panel.group"), "that there is no data")
    assert "no data yet" in browser.text(".pills")
    assert not browser.element(".chart-bins").is_displayed()
    begin(page, a=1, b=1, c=1)
    until(lambda: "No data yet" not in browser.text(".panel.group"), "the group came")
    assert len(browser.blocks()) == 3


def test_old_and_unreachable_are_shown_as_such(serve: Serve, browser: Browser) -> None:
    page = serve()
    now = time.time()
    page.send(plays.speeds(now - 300, SPEEDS), plays.heartbeat(now, 1, {A: 1}))
    page.trouble("127.0.0.1:9: Connection refused")
    browser.open(page.address)
    until(lambda: "Kafka is unreachable" in browser.text(".notices"), "the broken connection")
    assert "Connection refused" in browser.text(".notices")
    assert "unreachable" in browser.text(".pill.bad")
    page.trouble("")
    until(lambda: "unreachable" not in browser.text(), "the connection is back")
    assert "The monitor is silent: the speeds shown are old." in browser.text(".notices")
    assert "silent for 5 min" in browser.text(".pill.bad")


def test_a_page_without_its_server_says_so(serve: Serve, browser: Browser) -> None:
    page = serve()
    browser.open(page.address)
    assert page.end() == 0
    until(
        lambda: browser.run(
            'return getComputedStyle(document.getElementById("popup")).visibility !== "hidden"'
            ' && document.getElementById("popup").getAttribute("aria-hidden") !== "true"'
        ),
        "that the connection is lost",
    )
    browser.driver.get("about:blank")
    browser.complaints()  # the missing server is what this test is about


def test_everything_is_loaded_from_its_own_server(serve: Serve, browser: Browser) -> None:
    page = serve("--past", "120")
    browser.open(page.address)
    until(lambda: len(browser.blocks()) == 24, "all blocks")
    time.sleep(1)
    asked = [url for url in browser.requests() if not url.startswith(("data:", "about:"))]
    own = page.address.removeprefix("http://")
    asked = [url for url in asked if not url.startswith("chrome")]  # the browser's own pages
    assert any(url.startswith(f"ws://{own}") for url in asked)
    elsewhere = [u for u in asked if not u.startswith((f"http://{own}", f"ws://{own}"))]
    assert elsewhere == []


def test_dark_mode_follows_the_system_and_the_button(serve: Serve, browser: Browser) -> None:
    browser.prefer(prefers_color_scheme="dark")
    page = serve("--past", "60")
    browser.open(page.address)
    until(lambda: browser.run('return document.body.classList.contains("body--dark")'), "dark")
    ground = "return getComputedStyle(document.body).backgroundColor"
    dark = browser.run(ground)
    button = browser.element('.top button[aria-label^="Theme"]')
    assert button.get_attribute("aria-label") == "Theme: auto"
    button.click()
    until(lambda: button.get_attribute("aria-label") == "Theme: light", "the choice")
    until(lambda: browser.run(ground) != dark, "light")
    browser.driver.refresh()
    browser.open(page.address)
    again = '.top button[aria-label="Theme: light"]'
    until(lambda: browser.all(again), "the choice is remembered")
    browser.run("localStorage.clear()")


def test_it_fits_on_a_phone(serve: Serve, browser: Browser) -> None:
    browser.size(390, 844)
    page = serve("--past", "300")
    browser.open(page.address)
    until(lambda: len(browser.blocks()) == 24, "all blocks")
    widths = "return [document.documentElement.scrollWidth, window.innerWidth]"
    assert browser.run(widths) == [390, 390]
    assert browser.run(
        "return [...document.querySelectorAll('.panel')].every("
        "p => p.getBoundingClientRect().right <= 390)"
    )


def test_it_works_with_a_keyboard_and_a_screen_reader(serve: Serve, browser: Browser) -> None:
    page = serve()
    begin(page, a=1, b=2, c=2)
    browser.open(page.address)
    until(lambda: len(browser.blocks()) == 3, "the blocks")
    assert browser.run("return document.documentElement.lang").startswith("en")
    assert [h.text for h in browser.all("h1")] == ["lagless"]
    assert len(browser.all("main")) == 1
    nameless = browser.run(
        """
        const name = (e) => e.getAttribute("aria-label") || e.innerText
          || document.getElementById(e.getAttribute("aria-labelledby"))?.innerText
          || e.closest("label")?.innerText || "";
        return [...document.querySelectorAll(
          "button, a, input, select, summary, section, figure, [role=region], [role=log]"
        )].filter(e => e.type !== "hidden" && !name(e).trim()).map(e => e.outerHTML.slice(0, 200));
        """
    )
    assert nameless == []
    hidden = browser.run(
        'return document.querySelectorAll("[aria-hidden=true] :is(a, button, input)").length'
    )
    assert hidden == 0
    # By keyboard alone: the skip link comes first, and a table opens with Enter.
    body = browser.element("body")
    body.send_keys(Keys.TAB)
    assert "Skip" in browser.run("return document.activeElement.innerText")
    summary = browser.element(".panel.group details summary")
    browser.run("document.querySelector('.panel.group details summary').focus()")
    summary.send_keys(Keys.ENTER)
    until(lambda: "orders:2" in browser.text(".panel.group details table"), "the table")
    wanted = [["orders:0", "1"], ["orders:1", "2"], ["orders:2", "2"]]

    def holders() -> list[list[str]]:
        rows = browser.text(".panel.group details tbody").splitlines()
        return [row.split("\t")[:2] for row in rows]

    # The consumers' heartbeats may still be on their way.
    until(lambda: holders() == wanted, "who holds what")


def test_what_if_answers_and_changes_nothing(serve: Serve, browser: Browser) -> None:
    page = serve("--past", "60")
    browser.open(page.address)
    # On a machine that has never packed, each algorithm is compiled first.
    until(lambda: "would use" in browser.text(".whatif .answer"), "an answer", 300)
    until(lambda: browser.all(".whatif tbody tr"), "the other answers", 300)
    first = browser.text(".whatif .answer")
    held = until(browser.columns, "the bins")
    field = browser.element('.whatif input[aria-label^="Capacity"]')
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys("5")
    until(lambda: browser.text(".whatif .answer") != first, "another answer")
    assert "fewer" in browser.text(".whatif .answer")
    assert len(browser.all(".whatif tbody tr")) >= 14
    field.send_keys(Keys.CONTROL, "a")
    field.send_keys("-3")
    until(lambda: "greater than 0" in browser.text(".whatif .answer"), "a complaint")
    assert browser.columns() == held


def test_other_targets_are_replayed(serve: Serve, browser: Browser) -> None:
    page = serve("--past", "300")
    browser.open(page.address)
    # On a machine that has never packed, the algorithm is compiled first.
    until(lambda: len(browser.all(".targets tbody tr")) == 6, "a line for each target", 300)
    caption = browser.text(".targets figcaption")
    assert "of traffic, replayed under each target" in caption
    with urllib.request.urlopen(page.address + "snapshot.json") as answer:
        rows = json.load(answer)["targets"]
    assert [row["delay"] for row in rows] == [2, 5, 10, 20, 60, 300]
    assert rows[0]["consumers"] >= rows[-1]["consumers"] > 0


def test_pictures_for_the_docs(serve: Serve, browser: Browser, pictures: Path | None) -> None:
    page = serve("--past", "915", "--live")
    for name, width, height, scheme in (
        ("dashboard", 1400, 1056, "light"),
        ("dashboard-dark", 1400, 1056, "dark"),
        ("dashboard-phone", 390, 844, "light"),
    ):
        browser.prefer(prefers_color_scheme=scheme)
        browser.size(width, height)
        browser.open(page.address)
        until(lambda: len(browser.blocks()) == 24, "all blocks")
        time.sleep(3)  # until everything has glided to its place
        picture = browser.driver.get_screenshot_as_png()
        assert picture.startswith(b"\x89PNG")
        assert len(picture) > 30_000
        if pictures is not None:
            pictures.mkdir(parents=True, exist_ok=True)
            (pictures / f"{name}.png").write_bytes(picture)


def test_scripted_messages_are_messages_of_the_roles() -> None:
    scripted = group()
    messages = plays.past(scripted, 1_000_000.0, 60, plays.walk(3, scripted.knobs.capacity))
    assert messages
    assert all(isinstance(message, Message) for message in messages)
