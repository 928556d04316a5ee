"""A real browser, and the real page on a source that tests send messages to."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from lagless.messages import Message
from tests import waiting

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--disable-quic",
    "--hide-scrollbars",
    "--lang=en",
)
PATIENCE = 30.0
"""Seconds to wait for something to show on the page; a busy machine is slow."""
T = TypeVar("T")


def until(probe: Callable[[], T], what: str, patience: float = PATIENCE) -> T:
    """Wait until the probe returns something true, and return it."""
    return waiting.until(probe, what, patience)


class Served:
    """The page, served by a process of its own."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self.log = folder / "page.log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        self.address = str(json.loads(line)["address"]) if line.startswith("{") else line
        assert self.address.startswith("http://127.0.0.1:"), self.log.read_text()

    def send(self, *messages: Message) -> None:
        """Send messages to the page's source."""
        for message in messages:
            self._write({"type": type(message).__name__, "message": message.model_dump()})

    def trouble(self, text: str) -> None:
        """Set the trouble of the source's connection."""
        self._write({"trouble": text})

    def _write(self, document: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(document) + "\n")
        self.process.stdin.flush()

    def end(self) -> int:
        """Send SIGTERM and return the exit status."""
        self.process.terminate()
        return self.process.wait(20)


class Browser:
    """Chromium, with the queries that tests need."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def open(self, address: str) -> None:
        """Open the page and wait until it is connected."""
        self.driver.get(address)
        until(lambda: self.run("return !!window.did_handshake"), "the page is connected")
        until(lambda: self.all(".chart-bins"), "the page is there")

    def run(self, script: str) -> Any:
        """Run JavaScript in the page."""
        return self.driver.execute_script(script)

    def text(self, selector: str = "body") -> str:
        """Return the rendered text of an element."""
        return str(self.run(f"return document.querySelector({selector!r})?.innerText || ''"))

    def element(self, selector: str) -> WebElement:
        """Return an element."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[WebElement]:
        """Return all elements."""
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def blocks(self) -> dict[str, dict[str, float]]:
        """Return where the blocks are drawn on the canvas, in pixels."""
        shapes = self.run(
            """
            const chart = getElement(Number(document.querySelector(".chart-bins").id.slice(1)));
            if (!chart?.chart) return {};
            const data = chart.chart.getModel().getSeriesByIndex(1)?.getData();
            const shapes = {};
            for (let i = 0; data && i < data.count(); i++) {
              const shape = data.getItemGraphicEl(i)?.shape;
              if (shape) shapes[data.getName(i)] = {...shape};
            }
            return shapes;
            """
        )
        return dict(shapes)

    def columns(self) -> dict[str, list[str]]:
        """Return the names of the blocks in each bin, the bins numbered from the left."""
        stacks: dict[int, list[str]] = {}
        for name, shape in self.blocks().items():
            stacks.setdefault(round(shape["x"]), []).append(name)
        return {str(number): sorted(stacks[x]) for number, x in enumerate(sorted(stacks), 1)}

    def size(self, width: int, height: int) -> None:
        """Set the size of the window."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )

    def prefer(self, **features: str) -> None:
        """Set media features, such as `prefers_color_scheme`."""
        settings = [{"name": name.replace("_", "-"), "value": v} for name, v in features.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": settings})

    def _log(self, name: str) -> list[dict[str, Any]]:
        return list(self.driver.get_log(name))  # type: ignore[no-untyped-call]  # untyped there

    def complaints(self) -> list[str]:
        """Return the errors and warnings on the console since the last call."""
        return [
            entry["message"]
            for entry in self._log("browser")
            if entry["level"] in ("SEVERE", "WARNING")
        ]

    def requests(self) -> list[str]:
        """Return the addresses that pages requested since the last call."""
        addresses = []
        for entry in self._log("performance"):
            event = json.loads(entry["message"])["message"]
            if event["method"] == "Network.requestWillBeSent":
                addresses.append(str(event["params"]["request"]["url"]))
            elif event["method"] == "Network.webSocketCreated":
                addresses.append(str(event["params"]["url"]))
        return addresses


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """Start one browser for the whole run."""
    options = Options()
    options.binary_location = shutil.which("chromium") or ""
    for flag in FLAGS:
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('chromium')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture
def browser(chromium: webdriver.Chrome) -> Iterator[Browser]:
    """Return a browser of desktop size; the test fails if its console shows complaints."""
    browser = Browser(chromium)
    browser.size(1400, 1000)
    browser.prefer(prefers_color_scheme="light", prefers_reduced_motion="no-preference")
    chromium.get("about:blank")
    browser.complaints()
    browser.requests()
    yield browser
    chromium.get("about:blank")
    complaints = browser.complaints()
    assert not complaints, complaints


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Return a function that serves the page, from the scripted source unless a module is named."""
    started: list[Served] = []

    def start(*arguments: str, module: str = "tests.dashboard.scripted") -> Served:
        started.append(Served([sys.executable, "-m", module, *arguments], tmp_path))
        return started[-1]

    yield start
    for page in started:
        page.process.terminate()
        page.process.wait(20)
        for pipe in (page.process.stdin, page.process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def pictures() -> Path | None:
    """Return the folder for the pictures of the docs, if LAGLESS_PICTURES names one."""
    folder = os.environ.get("LAGLESS_PICTURES")
    return Path(folder) if folder else None
