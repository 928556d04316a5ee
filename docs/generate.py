"""Write the reference pages from the code when the docs are built, so that they cannot differ."""

import ast
import configparser
import inspect
import re
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from lagless import messages
from lagless.cli import app as commands
from lagless.consumer import metrics as consumer
from lagless.controller import metrics as controller
from lagless.dashboard import metrics as dashboard
from lagless.metrics import Metric
from lagless.monitor import metrics as monitor
from lagless.settings import Settings

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "lagless"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to those that are written by hand."""
    for name, text in (
        ("reference/settings.md", settings_page()),
        ("reference/commands.md", commands_page()),
        ("reference/messages.md", messages_page()),
        ("reference/metrics.md", metrics_page()),
        ("reference/licences.md", licences_page()),
    ):
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """List the rooms where a page asks for them."""
    table = "| room | what is in it |\n| --- | --- |\n" + rooms()
    return markdown.replace("<!-- rooms -->", table)


def rooms() -> str:
    """Return a row per room in the order of the layers: the first sentence of its docstring."""
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    layers = contracts["importlinter:contract:rooms"]["layers"].replace("|", " ").split()
    packages = {file.parent for file in SOURCE.rglob("__init__.py")}
    lines = []
    for room in (SOURCE / name.removeprefix("lagless.") for name in layers):
        inner = sorted(package for package in packages if room in package.parents)
        for path in [room, *inner]:
            is_package = path in packages
            file = path / "__init__.py" if is_package else path.with_suffix(".py")
            sign = " ".join((ast.get_docstring(ast.parse(file.read_text())) or "").split())
            indent = "&emsp;" * (len(path.relative_to(SOURCE).parts) - 1)
            name = f"{indent}`{path.name}{'/' if is_package else ''}`"
            lines.append(f"| {name} | {re.split(r'(?<=[.]) ', sign)[0]} |")
    return "\n".join(lines)


def licences_page() -> str:
    """List what lagless is installed with, from what the packages say of themselves here."""
    lines = [
        "# Licences",
        "",
        "lagless is under the Apache License 2.0. With all extras but `dev` it is installed with",
        "these packages, each pinned in `constraints.txt`. `scripts/sbom` writes them as a bill of",
        "materials in CycloneDX's format. The jars of Kafka, Spark's Kafka connector and Delta,",
        "which are downloaded when they are first needed, are under the Apache License 2.0.",
        "",
        "| package | version | licence |",
        "| --- | --- | --- |",
    ]
    for name in sorted(_installed_with("lagless", PRODUCT) - {"lagless"}):
        found = metadata.metadata(name)
        lines.append(f"| {name} | {found['Version']} | {_licence(found)} |")
    return "\n".join(lines) + "\n"


PRODUCT = ("kafka", "spark", "kubernetes", "keda", "dashboard", "exact", "evaluation")


def _installed_with(name: str, extras: Sequence[str]) -> set[str]:
    """Return the packages that one needs on this machine, and those that they need."""
    wanted = [(name, extra) for extra in ("", *extras)]
    seen = set(wanted)
    for package, extra in wanted:
        for text in metadata.distribution(package).requires or ():
            asked = Requirement(text)
            if asked.marker is None or asked.marker.evaluate({"extra": extra}):
                new = {(canonicalize_name(asked.name), e) for e in ("", *asked.extras)} - seen
                seen |= new
                wanted += new
    return {package for package, _ in seen}


def _licence(found: Any) -> str:
    """Return what a package says about its licence, in a few words."""
    classified = [line for line in found.get_all("Classifier", ()) if line.startswith("License ::")]
    names = [line.rpartition(" :: ")[2] for line in classified]
    said = found["License-Expression"] or ", ".join(names) or found["License"] or ""
    return str(said).strip().partition("\n")[0].replace("|", "/") or "see its files"


def settings_page() -> str:
    """Describe every setting with its default and the reason for it."""
    lines = [
        "# Settings",
        "",
        "Settings come from `lagless.toml`, from environment variables",
        "(`LAGLESS_MONITOR__INTERVAL=2` is `interval` of `[monitor]`), and from",
        "`--set monitor.interval=2`; later ones override earlier ones. Sizes and rates are numbers",
        'of bytes or texts like `"5 MB"` and `"2 MB/s"`; times are seconds.',
    ]
    for section, model in _sections(Settings, ""):
        lines += ["", f"## {section or 'Top level'}", ""]
        if section and model.__doc__:
            lines += [inspect.cleandoc(model.__doc__), ""]
        lines += ["| key | default | meaning |", "| --- | --- | --- |"]
        for name, field in model.model_fields.items():
            if _model(field.annotation) is not None and name != "topic":
                continue
            default = "**required**" if field.is_required() else _default(field)
            meaning = _cell(" ".join((field.description or "").split()))
            lines.append(f"| `{field.alias or name}` | {default} | {meaning} |")
    return "\n".join(lines) + "\n"


def _default(field: Any) -> str:
    """Return a default as it would be written in the settings file; "" if there is none."""
    value = field.get_default(call_default_factory=True)
    if value in (None, PydanticUndefined, "", (), {}):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"`{value}`"


def _sections(model: type[BaseModel], path: str) -> Iterator[tuple[str, type[BaseModel]]]:
    yield (f"[{path}]" if path else ""), model
    for name, field in model.model_fields.items():
        inner = _model(field.annotation)
        if inner is not None:
            key = f"{path}.{name}" if path else name
            yield from _sections(inner, f"{key}.NAME" if name == "topic" else key)


def _model(annotation: Any) -> type[BaseModel] | None:
    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            return kind
    return None


def commands_page() -> str:
    """Describe every command with its options."""
    lines = [
        "# Commands",
        "",
        "Every command accepts `--json` after its name. It then prints one JSON object on stdout,",
        "and nothing else there. Exit status: 0 success, 1 failure, 2 wrong usage.",
    ]
    group = typer.main.get_command(commands.gather())
    lines += _commands(group, "lagless")
    return "\n".join(lines) + "\n"


def _commands(group: Any, path: str) -> list[str]:
    lines: list[str] = []
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            lines += _commands(command, f"{path} {name}")
            continue
        lines += ["", f"## {path} {name}", "", (command.help or "").strip(), ""]
        lines += ["| option | default | meaning |", "| --- | --- | --- |"]
        for parameter in command.params:
            names = ", ".join(f"`{o}`" for o in parameter.opts) or f"`{parameter.name}`"
            if parameter.param_type_name == "argument":
                names = f"`{(parameter.name or '').upper()}`"
            default = None if callable(parameter.default) else parameter.default
            unset = default is None or default is False or default in ("", (), [])
            shown = "" if unset else f"`{default}`"
            meaning = _cell(getattr(parameter, "help", "") or "")
            lines.append(
                f"| {names} | {'**required**' if parameter.required else shown} | {meaning} |"
            )
    return lines


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def metrics_page() -> str:
    """Describe every metric of every role."""
    lines = ["# Metrics", "", "Each role serves `/metrics` if its `metrics_port` is set."]
    roles: dict[str, Sequence[Metric[Any]]] = {
        "monitor": monitor.METRICS,
        "controller": controller.METRICS,
        "consumer": consumer.METRICS,
        "dashboard": dashboard.METRICS,
    }
    for role, metrics in roles.items():
        lines += ["", f"## {role}", ""]
        lines += ["| metric | type | labels | meaning |", "| --- | --- | --- | --- |"]
        for metric in metrics:
            name = f"{metric.name}_total" if metric.kind == "counter" else metric.name
            labels = ", ".join(f"`{label}`" for label in metric.labels)
            lines.append(f"| `{name}` | {metric.kind} | {labels} | {_cell(metric.help)} |")
    return "\n".join(lines) + "\n"


def messages_page() -> str:
    """Describe what crosses a process border."""
    lines = ["# Messages", "", inspect.cleandoc(messages.__doc__ or "")]
    kinds = [
        kind
        for kind in vars(messages).values()
        if isinstance(kind, type) and issubclass(kind, messages.Message)
    ]
    for kind in kinds:
        lines += ["", f"## {kind.__name__}", "", inspect.cleandoc(kind.__doc__ or ""), ""]
        lines += ["| field | type |", "| --- | --- |"]
        for name, field in kind.model_fields.items():
            lines.append(f"| `{name}` | `{_type(field.annotation)}` |")
    return "\n".join(lines) + "\n"


def _type(annotation: Any) -> str:
    """Return a type as a reader of JSON would write it, without its bounds."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation is NoneType:
        return "null"
    if origin is Annotated:
        return _type(inner[0])
    if origin is Literal:
        return " or ".join(
            f'"{value}"' if isinstance(value, str) else str(value) for value in inner
        )
    if origin in (Union, UnionType):
        return " or ".join(_type(kind) for kind in inner)
    if inner:
        kinds = ", ".join("…" if kind is ... else _type(kind) for kind in inner)
        return f"{origin.__name__}[{kinds}]"
    return str(getattr(annotation, "__name__", annotation))
