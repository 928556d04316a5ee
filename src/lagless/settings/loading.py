"""From TOML, LAGLESS_… variables and KEY=VALUE words to the tree; errors name the place."""

import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from lagless.errors import WrongSettings
from lagless.settings.tree import Settings

PREFIX = "LAGLESS_"
_FROM_ENVIRONMENT_ONLY = (
    ("kafka", "security", "password"),
    ("kafka", "security", "client_secret"),
    ("dashboard", "token"),
)
Path_ = tuple[str, ...]


def load(
    file: Path | None,
    environ: Mapping[str, str] | None = None,
    overrides: Iterable[str] = (),
) -> Settings:
    """Read the settings; the command line goes over the environment, and that over the file."""
    document: dict[str, Any] = {}
    if file is not None:
        try:
            document = tomllib.loads(file.read_text())
        except FileNotFoundError as error:
            raise WrongSettings(
                f"{file}: there is no such file; write one with group, topics and lake.path"
            ) from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise WrongSettings(f"{file}: this is not TOML: {error}") from error
        except OSError as error:
            raise WrongSettings(f"{file}: cannot be read: {error.strerror}") from error
    environment = os.environ if environ is None else environ
    return parse(document, str(file or "settings"), environment, overrides)


def parse(
    document: Mapping[str, Any],
    source: str = "settings",
    environ: Mapping[str, str] | None = None,
    overrides: Iterable[str] = (),
) -> Settings:
    """Make the tree of a document, with variables and KEY=VALUE words laid over it."""
    for secret in _FROM_ENVIRONMENT_ONLY:
        if _at(document, secret) is not None:
            variable = PREFIX + "__".join(secret).upper()
            raise WrongSettings(
                f"{source}: {'.'.join(secret)}: a secret does not belong in a file of settings; "
                f"set {variable} instead"
                + ("" if secret[0] == "dashboard" else f" or {secret[-1]}_file")
            )
    merged = _copy(document)
    origin: dict[Path_, str] = {}
    for path, text, place in (*_variables(environ or {}), *_words(overrides)):
        origin[path] = place
        _put(merged, path, _value(text), place)
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        first = error.errors()[0]
        raise WrongSettings(_sentence(first, source, origin)) from error


def _variables(environ: Mapping[str, str]) -> Iterable[tuple[Path_, str, str]]:
    known = {name.upper() for name in Settings.model_fields}
    for name in sorted(environ):
        path = tuple(part.lower() for part in name.removeprefix(PREFIX).split("__"))
        # LAGLESS_TEST_KUBECONFIG and alike are no settings: only known first words are.
        if name.startswith(PREFIX) and path[0].upper() in known:
            yield path, environ[name], f"environment variable {name}"


def _words(overrides: Iterable[str]) -> Iterable[tuple[Path_, str, str]]:
    for word in overrides:
        key, sign, text = word.partition("=")
        if not sign or not key.strip():
            raise WrongSettings(f"--set {word}: should be KEY=VALUE, monitor.interval=2 say")
        yield tuple(key.strip().split(".")), text, f"--set {word}"


def _value(text: str) -> Any:
    """Read a value as TOML where it is one, and as text otherwise."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _copy(document: Any) -> Any:
    if isinstance(document, Mapping):
        return {key: _copy(value) for key, value in document.items()}
    return document


def _at(document: Any, path: Path_) -> Any:
    for key in path:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document


def _put(document: dict[str, Any], path: Path_, value: Any, place: str) -> None:
    for key in path[:-1]:
        inner = document.setdefault(key, {})
        if not isinstance(inner, dict):
            raise WrongSettings(f"{place}: {key} is a value, not a section")
        document = inner
    document[path[-1]] = value


def _sentence(error: ErrorDetails, source: str, origin: Mapping[Path_, str]) -> str:
    path = tuple(str(part) for part in error["loc"])
    place = next((origin[path[:n]] for n in range(len(path), 0, -1) if path[:n] in origin), source)
    key = ".".join(path)
    if error["type"] == "extra_forbidden":
        what = f"there is no such setting; there are: {', '.join(_keys(path[:-1]))}"
    elif error["type"] == "missing":
        what = "is missing and has no default; give it a value"
    else:
        what = error["msg"].removeprefix("Value error, ")
        what = what[0].lower() + what[1:]
        if error["type"] != "value_error" and "password" not in key and "secret" not in key:
            what += f" (it is {error['input']!r})"
    return f"{place}: {key}: {what}" if key else f"{place}: {what}"


def _keys(path: Path_) -> list[str]:
    """Name the keys that a section has."""
    node: type[BaseModel] = Settings
    for part in path:
        field = node.model_fields.get(part)
        if field is None:
            continue  # the NAME of [topic.NAME]
        inner = [field.annotation, *get_args(field.annotation)]
        node = next((t for t in inner if isinstance(t, type) and issubclass(t, BaseModel)), node)
    return [field.alias or name for name, field in node.model_fields.items()]
