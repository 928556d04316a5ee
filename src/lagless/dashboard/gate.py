"""What every request passes first: the proxy's prefix, the login, and headers that browsers obey.

An ASGI application around the page's own. A reverse proxy may pass the prefix on or take it away;
both work, for pages and for WebSockets.
"""

import base64
import binascii
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from hmac import compare_digest
from typing import Any, TypeAlias

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = ("/health",)
"""What answers without a login: probes have none, and it says little."""
POLICY = "; ".join(
    (
        "default-src 'self'",
        # NiceGUI starts from a script in the page, and Vue compiles templates in the browser.
        "script-src 'self' 'unsafe-inline' 'unsafe-eval'",
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data:",
        "font-src 'self' data:",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_SAFE = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


@dataclass(frozen=True, slots=True)
class Login:
    """Who may see the page: with no field set, everybody."""

    username: str = ""
    password: str = ""
    access_token: str = ""

    @property
    def is_needed(self) -> bool:
        """Return whether a login is needed at all."""
        return bool(self.username or self.access_token)

    def admits(self, authorization: str) -> bool:
        """Return whether the header Authorization opens the page."""
        if not self.is_needed:
            return True
        scheme, _, words = authorization.partition(" ")
        given = words.strip().encode("utf-8", "replace")
        match scheme.lower():
            case "bearer" if self.access_token:
                return compare_digest(given, self.access_token.encode())
            case "basic" if self.username:
                try:
                    pair = base64.b64decode(given, validate=True)
                except (binascii.Error, ValueError):
                    return False
                return compare_digest(pair, f"{self.username}:{self.password}".encode())
        return False

    @property
    def challenge(self) -> str:
        """Return what a browser or client is asked for."""
        return 'Basic realm="lagless", charset="UTF-8"' if self.username else "Bearer"


@dataclass(frozen=True, slots=True)
class Gate:
    """The application behind the gate, as an application."""

    app: App
    prefix: str = ""
    """What the address of the page begins with, such as "/lagless"."""
    login: Login = Login()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        scope, path = self._placed(scope)
        headers = dict(scope["headers"])
        authorization = headers.get(b"authorization", b"").decode("latin-1")
        if path in OPEN or self.login.admits(authorization):
            await self.app(scope, receive, _with_headers(send))
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._refuse(_with_headers(send))

    def _placed(self, scope: Scope) -> tuple[Scope, str]:
        """Return the request as if the proxy had passed the prefix on, and its path below it."""
        path = scope["path"]
        # Anyone can send this header; where the page is, the settings say.
        headers = [pair for pair in scope["headers"] if pair[0] != b"x-forwarded-prefix"]
        if path == self.prefix or path.startswith(f"{self.prefix}/"):
            below = path[len(self.prefix) :] or "/"
        else:
            below = path
        whole = f"{self.prefix}{below}"
        here = {"root_path": self.prefix, "path": whole, "raw_path": whole.encode()}
        return {**scope, **here, "headers": headers}, below

    async def _refuse(self, send: Send) -> None:
        body = b"log in to see this page\n"
        headers = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", str(len(body)).encode()),
            (b"www-authenticate", self.login.challenge.encode()),
        ]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _with_headers(send: Send) -> Send:
    async def safely(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {name for name, _ in _SAFE}
            rest = [pair for pair in message.get("headers", ()) if pair[0].lower() not in own]
            message = {**message, "headers": [*rest, *_SAFE]}
        await send(message)

    return safely
