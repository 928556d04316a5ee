"""The prefix, the login and the headers of the page: the rules, the real server, and a browser."""

import base64
import contextlib
import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagless import settings
from lagless.dashboard import gate
from lagless.dashboard.gate import Login
from lagless.errors import WrongSettings
from lagless.model import TopicPartition
from tests.dashboard import plays
from tests.dashboard.conftest import Browser, Served, until

Serve = Callable[..., Served]
LEAST: dict[str, Any] = {"group": "orders", "topics": ["orders"], "lake": {"path": "lake"}}
HTML = "<img src=x onerror=alert(1)>"
LOCKED = ("--username", "ann", "--password", "hush: ü", "--access-token", "t0ken")


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.mark.parametrize(
    ("login", "header", "admitted"),
    [
        (Login(), "", True),
        (Login("ann", "x"), "", False),
        (Login("ann", "x"), basic("ann", "x"), True),
        (Login("ann", "x:y"), basic("ann", "x:y"), True),
        (Login("ann", "x"), basic("ann", ""), False),
        (Login("ann", "x"), basic("", ""), False),
        (Login("ann", "x"), "Bearer ", False),
        (Login("ann", "x"), "Basic ===", False),
        (Login("ann", "x"), "Basic ÿ", False),
        (Login(access_token="t"), "bearer t", True),
        (Login(access_token="t"), "Bearer u", False),
        (Login(access_token="t"), basic("", ""), False),
        (Login("ann", "x", "t"), "Bearer t", True),
    ],
)
def test_who_is_admitted(login: Login, header: str, admitted: bool) -> None:
    assert login.admits(header) is admitted


@given(st.text(max_size=40))
def test_no_other_header_opens_the_page(header: str) -> None:
    assert not Login("ann", "a long password", "a long token").admits(header)


def test_settings_of_a_login_are_whole_and_hide_secrets(tmp_path: Path) -> None:
    environ = {"LAGLESS_DASHBOARD__PASSWORD": "123", "LAGLESS_DASHBOARD__ACCESS_TOKEN": "true"}
    tree = settings.parse(LEAST | {"dashboard": {"username": "ann"}}, environ=environ)
    assert tree.dashboard.read_password() == "123"
    assert tree.dashboard.read_access_token() == "true"
    assert "123" not in repr(tree)
    for wrong, words in (
        ({"username": "ann"}, "username needs a password"),
        ({"username": "a:b", "password_file": "f"}, "without a colon"),
        ({"password_file": "f"}, "password needs a username"),
        ({"password": "x"}, "LAGLESS_DASHBOARD__PASSWORD or password_file"),
        ({"access_token": "x"}, "LAGLESS_DASHBOARD__ACCESS_TOKEN or access_token_file"),
        ({"path": "lagless"}, 'begin with "/"'),
        ({"path": "/lagless/"}, "not end with it"),
        ({"path": "/<img>"}, 'begin with "/"'),
    ):
        with pytest.raises(WrongSettings, match=words):
            settings.parse(LEAST | {"dashboard": wrong})
    empty = tmp_path / "token"
    empty.write_text("\n")
    tree = settings.parse(LEAST | {"dashboard": {"access_token_file": str(empty)}})
    with pytest.raises(WrongSettings, match="is empty, which would let everybody in"):
        tree.dashboard.read_access_token()


def get(address: str, authorization: str = "", **headers: str) -> tuple[int, Any, bytes]:
    """Return status, headers and body of an answer."""
    asked = urllib.request.Request(address, headers=headers)
    if authorization:
        asked.add_header("Authorization", authorization)
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


@pytest.mark.slow
def test_the_real_server_asks_for_a_login_and_sends_safe_headers(serve: Serve) -> None:
    page = serve(*LOCKED)
    for path in ("", "snapshot.json", "assets/style.css", "nowhere", "_nicegui/x"):
        status, headers, body = get(page.address + path)
        assert (status, body) == (401, b"log in to see this page\n")
        assert headers["WWW-Authenticate"] == 'Basic realm="lagless", charset="UTF-8"'
    assert get(page.address + "health")[0] == 200
    assert get(page.address + "snapshot.json", "Bearer wrong")[0] == 401
    for right in (basic("ann", "hush: ü"), "Bearer t0ken"):
        status, headers, body = get(page.address + "snapshot.json", right)
        assert (status, json.loads(body)["group"]) == (200, "orders")
        for name, value in gate.HEADERS.items():
            assert headers.get_all(name) == [value]
        assert "Server" not in headers
    script = next(rule for rule in gate.POLICY.split("; ") if rule.startswith("script-src"))
    assert "http" not in script
    assert "*" not in script


class Proxy:
    """A reverse proxy for plain requests that serves a page under a prefix, or takes it away."""

    def __init__(self, target: str, strip: str = "") -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.removeprefix(strip)
                status, headers, body = get(target + path, **{"X-Forwarded-Prefix": "/evil"})
                self.send_response(status)
                self.send_header("Content-Type", headers["Content-Type"])
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextlib.contextmanager
def proxy(target: str, strip: str = "") -> Iterator[str]:
    """Run a proxy and return its address."""
    running = Proxy(target, strip)
    try:
        yield running.address
    finally:
        running.close()


@pytest.mark.slow
def test_a_proxy_may_pass_the_prefix_on_or_take_it_away(serve: Serve) -> None:
    page = serve("--path", "/tools/lagless")
    assert page.address.endswith("/tools/lagless/")
    server = page.address.removesuffix("/tools/lagless/")
    for strip in ("", "/tools/lagless"):
        with proxy(server, strip) as address:
            status, _, body = get(address + "/tools/lagless/")
            text = body.decode()
            assert status == 200
            assert '"/tools/lagless/_nicegui' in text
            assert 'href="/tools/lagless/assets/style.css"' in text
            assert "evil" not in text
            style = get(address + "/tools/lagless/assets/style.css")
            assert style[0] == 200
            assert b"{" in style[2]
            health = get(address + "/tools/lagless/health")
            assert json.loads(health[2]) == {"healthy": True, "trouble": ""}


@pytest.mark.slow
@pytest.mark.browser
def test_a_browser_behind_a_login_and_a_prefix_shows_names_as_text(
    serve: Serve, browser: Browser
) -> None:
    page = serve("--path", "/lagless", *LOCKED)
    credentials = f"ann:{quote('hush: ü')}"
    now = time.time()
    evil = TopicPartition(HTML, 0)
    page.send(
        plays.speeds(now, {evil: 9e5}),
        plays.heartbeat(now, 1, {evil: 1}, trouble=HTML, lag_seconds=1),
    )
    browser.open(page.address.replace("http://", f"http://{credentials}@"))
    until(lambda: HTML in browser.text(".notices"), "the trouble as text")
    summary = ".panel.group details summary"
    browser.run(f"document.querySelector('{summary}').click()")
    until(lambda: HTML in browser.text(".panel.group details table"), "the name as text")
    assert browser.run("return document.querySelectorAll('img[src=x]').length") == 0
    # A script from elsewhere is refused by the browser, which says so on its console.
    browser.run(
        "window.refused = []; document.addEventListener('securitypolicyviolation',"
        " e => window.refused.push(e.effectiveDirective));"
        "const s = document.createElement('script'); s.src = 'https://example.org/x.js';"
        "document.head.append(s);"
    )
    until(lambda: browser.run("return window.refused") == ["script-src-elem"], "the refusal")
    assert all("example.org" in complaint for complaint in browser.complaints())
