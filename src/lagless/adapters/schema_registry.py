"""A schema registry with Confluent's REST protocol: Confluent's own, Karapace, or Apicurio.

1. The meaning of an id never changes, so a schema that was read once is kept for good.
2. Only the registry's own word that an id does not exist (error 40403) makes it unknown. That word
   holds for a while: a replica of a registry may learn of a schema late.
3. Every other answer that is not a schema, and no answer, is Away: records wait.
"""

import base64
import http.client
import json
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, NoReturn

from lagless.errors import Away, WrongSettings
from lagless.ports import Schema
from lagless.settings import RegistrySettings

LARGEST = 4_000_000
"""Bytes of an answer; more is not a schema."""
UNKNOWN_SECONDS = 30.0
"""Seconds for which an id that does not exist is not asked for again."""
UNKNOWN = 40403
"""The registry's code for a schema that it does not have."""
NO_REFERENCE = (UNKNOWN, 40401, 40402)
"""Its codes for a subject or a version that it does not have, as references name them."""
MOST_REFERENCES = 200
CONFLUENT = "application/vnd.schemaregistry.v1+json, application/json"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Credentials must not follow to another host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow nowhere."""


class SchemaRegistry:
    """The schemas behind a URL, each asked for once."""

    def __init__(self, settings: RegistrySettings) -> None:
        if settings.url is None:
            raise WrongSettings(
                "registry.url: is missing; set it to the address of the schema registry, such as "
                "http://127.0.0.1:8081"
            )
        settings.authorization()  # a secret that is missing is said before the first record
        self._settings = settings
        self._url = settings.url
        self._name = f"the schema registry at {self._url}"
        self._lock = threading.Lock()
        self._schemas: dict[int, Schema] = {}
        self._unknown: dict[int, float] = {}
        handlers: list[Any] = [_NoRedirects]
        if self._url.startswith("https:"):
            handlers.append(urllib.request.HTTPSHandler(context=_tls(settings)))
        self._opener = urllib.request.build_opener(*handlers)

    def schema(self, number: int) -> Schema | None:
        """Return the schema with an id; see ports.Registry."""
        with self._lock:
            known = self._schemas.get(number)
            until = self._unknown.get(number, 0.0)
        if known is not None or time.monotonic() < until:
            return known
        schema = self._fetch(number)
        with self._lock:
            if schema is None:
                self._unknown[number] = time.monotonic() + UNKNOWN_SECONDS
            else:
                self._schemas[number] = schema
        return schema

    def check(self) -> None:
        """Raise Away unless the registry answers as one, and accepts the credentials."""
        answer = self._get("/subjects")
        if not isinstance(answer, list):
            self._nonsense("/subjects", "no list of subjects")

    def _fetch(self, number: int) -> Schema | None:
        path = f"/schemas/ids/{number}"
        answer = self._get(path)
        if answer is None:
            return None
        text, references = self._parts(path, answer)
        kind = answer.get("schemaType") or "AVRO"
        if not isinstance(kind, str):
            self._nonsense(path, "a schemaType that is not text")
        texts: dict[tuple[str, int], str] = {}
        self._follow(references, texts)
        return Schema(kind, text, tuple(texts.values()))

    def _follow(self, references: Any, texts: dict[tuple[str, int], str]) -> None:
        """Add the texts of references, each after what it refers to itself."""
        for reference in references:
            match reference:
                case {"subject": str(subject), "version": int(version)}:
                    pass
                case _:
                    self._nonsense("/subjects", "a reference without subject or version")
            if (subject, version) in texts:
                continue
            if len(texts) >= MOST_REFERENCES:
                self._nonsense("/subjects", f"a schema with more than {MOST_REFERENCES} references")
            # Taken note of before its own references: a circle ends here.
            texts[subject, version] = ""
            path = f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/{version}"
            answer = self._get(path)
            if answer is None:
                self._nonsense(path, "that a schema which is referred to does not exist")
            text, inner = self._parts(path, answer)
            self._follow(inner, texts)
            del texts[subject, version]
            texts[subject, version] = text

    def _parts(self, path: str, answer: Any) -> tuple[str, list[Any]]:
        text = answer.get("schema") if isinstance(answer, Mapping) else None
        if not isinstance(text, str):
            self._nonsense(path, "no schema")
        references = answer.get("references") or []
        if not isinstance(references, list):
            self._nonsense(path, "references that are not a list")
        return text, references

    def _get(self, path: str) -> Any:
        """Return the parsed answer; None if the registry does not have what was asked for.

        A thread asks: a name that is looked up, or an answer that comes byte by byte, may take
        longer than any timeout of the socket.
        """
        answer: Future[Any] = Future()

        def ask() -> None:
            try:
                answer.set_result(self._ask(path))
            except BaseException as error:
                answer.set_exception(error)

        threading.Thread(target=ask, name="registry", daemon=True).start()
        try:
            return answer.result(self._settings.timeout)
        except TimeoutError as error:
            raise self._silent(error) from error

    def _ask(self, path: str) -> Any:
        request = urllib.request.Request(self._url + path, headers={"Accept": CONFLUENT})
        credentials = self._settings.authorization()
        if credentials is not None:
            scheme, secret = credentials
            if scheme == "Basic":
                secret = base64.b64encode(secret.encode()).decode()
            request.add_unredirected_header("Authorization", f"{scheme} {secret}")
        until = time.monotonic() + self._settings.timeout
        try:
            with self._opener.open(request, timeout=self._settings.timeout) as answer:
                return self._parsed(path, self._body(answer, until))
        except urllib.error.HTTPError as error:
            with error:
                return self._refused(path, error, until)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._silent(error) from error

    def _body(self, answer: Any, until: float) -> bytes:
        """Return the body, unless it is too long or comes too slowly."""
        body = bytearray()
        # A server that sends a byte now and then would never exceed the socket's own timeout.
        while part := answer.read1(65536):
            body += part
            if len(body) > LARGEST:
                raise self._away(f"sends more than {LARGEST:,} bytes, too many for a schema")
            if time.monotonic() > until:
                raise TimeoutError
        return bytes(body)

    def _parsed(self, path: str, body: bytes) -> Any:
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            self._nonsense(path, "no JSON")

    def _refused(self, path: str, error: urllib.error.HTTPError, until: float) -> None:
        """Return if the registry says that it does not have what was asked for; raise Away."""
        code = error.code
        if code == 404:
            try:
                told = json.loads(self._body(error, until))
            except (OSError, http.client.HTTPException, ValueError, RecursionError):
                told = None
            codes = (UNKNOWN,) if path.startswith("/schemas/") else NO_REFERENCE
            if isinstance(told, Mapping) and told.get("error_code") in codes:
                return
            raise self._away(
                f"has nothing at {path} (404): check registry.url; Apicurio's ends in "
                "/apis/ccompat/v7"
            ) from error
        if code == 401:
            raise self._away(f"{self._unauthorized()} (401)") from error
        if code == 403:
            raise self._away(f"does not allow this user to read {path} (403)") from error
        if 300 <= code < 400:
            to = error.headers.get("Location") or "nowhere"
            raise self._away(f"redirects to {to}: set registry.url to that address") from error
        raise self._away(f"cannot answer {path} ({code} {error.reason})") from error

    def _unauthorized(self) -> str:
        match self._settings.auth:
            case "basic":
                return (
                    f"rejects the user {self._settings.username} or the password: check "
                    "registry.username and LAGLESS_REGISTRY__PASSWORD or registry.password_file"
                )
            case "bearer":
                return "rejects the token: check LAGLESS_REGISTRY__TOKEN or registry.token_file"
            case _:
                return 'requires credentials: set registry.auth to "basic" or "bearer"'

    def _nonsense(self, path: str, what: str) -> NoReturn:
        raise self._away(
            f"answers {path} with {what}: check registry.url, and proxies on the way to it"
        )

    def _silent(self, error: Exception) -> Away:
        return self._away(f"does not answer: {_reason(error, self._settings.timeout)}")

    def _away(self, what: str) -> Away:
        return Away(f"{self._name} {what}", "registry")


def _reason(error: Exception, timeout: float) -> str:
    """Return why there was no answer, as part of a sentence."""
    inner = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(inner, TimeoutError):
        return f"no complete answer within {timeout:g} s"
    if isinstance(inner, ssl.SSLError):
        return f"TLS failed ({inner.reason or inner}): check registry.url and registry.ca_file"
    if isinstance(inner, http.client.HTTPException | ValueError):
        return f"the answer is not HTTP ({type(inner).__name__})"
    if isinstance(inner, OSError):
        return inner.strerror or str(inner)
    return str(inner)


def _tls(settings: RegistrySettings) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=settings.ca_file)
    except OSError as error:
        raise WrongSettings(
            f"registry.ca_file: {settings.ca_file} cannot be read; it should be a PEM file with "
            "the certificate of a CA"
        ) from error
