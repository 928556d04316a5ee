"""Read the settings from TOML, LAGLESS_… variables and KEY=VALUE; errors name their source."""

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from lagless.errors import WrongSettings
from lagless.settings.tree import Settings

PREFIX = "LAGLESS_"
LONGEST = 1_000_000
"""Characters of a settings file."""
_FROM_ENVIRONMENT_ONLY = (
    ("kafka", "security", "password"),
    ("kafka", "security", "client_secret"),
    ("registry", "password"),
    ("registry", "token"),
    ("dashboard", "password"),
    ("dashboard", "access_token"),
    ("dashboard", "token"),
)
_SECRET = re.compile(r"password|secret|token")
SHOWN = 200
"""Characters of a value that an error quotes."""
Path_ = tuple[str, ...]


def load(
    file: Path | None, environ: Mapping[str, str] | None = None, overrides: Iterable[str] = ()
) -> Settings:
    """Read the settings: the command line overrides the environment, which overrides the file."""
    document: dict[str, Any] = {}
    if file is not None:
        try:
            document = tomllib.loads(_text(file))
        except WrongSettings:
            raise
        except FileNotFoundError as error:
            raise WrongSettings(
                f"{file} does not exist; create it with group, topics and lake.path"
            ) from error
        except (ValueError, RecursionError) as error:
            raise WrongSettings(f"{file} is not valid TOML: {error}") from error
        except OSError as error:
            raise WrongSettings(f"{file} cannot be read: {error.strerror}") from error
    environment = os.environ if environ is None else environ
    return parse(document, str(file or "settings"), environment, overrides)


def _text(file: Path) -> str:
    with file.open(encoding="utf-8") as opened:
        text = opened.read(LONGEST + 1)
    if len(text) > LONGEST:
        raise WrongSettings(f"{file} is not a settings file: it has more than {LONGEST} characters")
    return text


def parse(
    document: Mapping[str, Any],
    source: str = "settings",
    environ: Mapping[str, str] | None = None,
    overrides: Iterable[str] = (),
) -> Settings:
    """Return the settings of a document, overridden by variables and KEY=VALUE words."""
    for secret in _FROM_ENVIRONMENT_ONLY:
        if _at(document, secret) is not None:
            variable = PREFIX + "__".join(secret).upper()
            or_file = "" if secret == ("dashboard", "token") else f" or {secret[-1]}_file"
            raise WrongSettings(
                f"{source}: {'.'.join(secret)}: secrets do not belong in the settings file; "
                f"set {variable}{or_file} instead"
            )
    merged = deepcopy(dict(document))
    origin: dict[Path_, str] = {}
    for path, text, where in (*_variables(environ or {}), *_words(overrides)):
        origin[path] = where
        value = _value(text)
        if path in _FROM_ENVIRONMENT_ONLY and not isinstance(value, str):
            value = text  # a password may look like a number
        _put(merged, path, value, where)
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        first = error.errors()[0]
        raise WrongSettings(_sentence(first, source, origin)) from error


def _variables(environ: Mapping[str, str]) -> Iterable[tuple[Path_, str, str]]:
    known = {name.upper() for name in Settings.model_fields}
    for name in sorted(environ):
        path = tuple(part.lower() for part in name.removeprefix(PREFIX).split("__"))
        # Variables like LAGLESS_TEST_KUBECONFIG are not settings: the first word must be known.
        if name.startswith(PREFIX) and path[0].upper() in known:
            yield path, environ[name], f"environment variable {name}"


def _words(overrides: Iterable[str]) -> Iterable[tuple[Path_, str, str]]:
    for word in overrides:
        key, sign, text = word.partition("=")
        if not sign or not key.strip():
            raise WrongSettings(f"--set {word}: expected KEY=VALUE, such as monitor.interval=2")
        yield tuple(key.strip().split(".")), text, f"--set {word}"


def _value(text: str) -> Any:
    """Return the value parsed as TOML, or the text itself if it is not TOML."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def _at(document: Any, path: Path_) -> Any:
    for key in path:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document


def _put(document: dict[str, Any], path: Path_, value: Any, where: str) -> None:
    for key in path[:-1]:
        inner = document.setdefault(key, {})
        if not isinstance(inner, dict):
            raise WrongSettings(f"{where}: {key} is a value, not a section")
        document = inner
    document[path[-1]] = value


def _sentence(error: ErrorDetails, source: str, origin: Mapping[Path_, str]) -> str:
    path = tuple(str(part) for part in error["loc"])
    where = next((origin[path[:n]] for n in range(len(path), 0, -1) if path[:n] in origin), source)
    key = ".".join(path)
    if error["type"] == "extra_forbidden":
        what = f"unknown setting; known here: {', '.join(_keys(path[:-1]))}"
    elif error["type"] == "missing":
        what = "is missing; it has no default"
    else:
        what = error["msg"].removeprefix("Value error, ")
        what = what[0].lower() + what[1:]
        if error["type"] != "value_error" and not _SECRET.search(key):
            shown = repr(error["input"])
            what += f" (it is {shown[:SHOWN]}{'…' if len(shown) > SHOWN else ''})"
    return f"{where}: {key}: {what}" if key else f"{where}: {what}"


def _keys(path: Path_) -> list[str]:
    """Return the keys of a section."""
    node: type[BaseModel] = Settings
    for part in path:
        field = node.model_fields.get(part)
        if field is None:
            continue  # the NAME of [topic.NAME]
        inner = [field.annotation, *get_args(field.annotation)]
        node = next((t for t in inner if isinstance(t, type) and issubclass(t, BaseModel)), node)
    return [field.alias or name for name, field in node.model_fields.items()]
