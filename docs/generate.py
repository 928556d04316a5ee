"""Write the reference pages from the code when the docs are built, so that they cannot differ."""

from collections.abc import Iterator
from typing import Any, get_args

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from lagless import messages
from lagless.cli import app as commands
from lagless.settings import Settings
from lagless.wiring import catalogue


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to those that are written by hand."""
    for name, text in (
        ("reference/settings.md", settings_page()),
        ("reference/commands.md", commands_page()),
        ("reference/messages.md", messages_page()),
        ("reference/metrics.md", metrics_page()),
    ):
        files.append(File.generated(config, name, content=text))
    return files


def settings_page() -> str:
    """Describe every setting with its default and the reason for it."""
    lines = [
        "# Settings",
        "",
        "From `lagless.toml`, from variables (`LAGLESS_MONITOR__INTERVAL=2` is `interval` of",
        "`[monitor]`), and from `--set monitor.interval=2`; later ones win. Sizes and rates are",
        'numbers of bytes or texts like `"5 MB"` and `"2 MB/s"`; times are seconds.',
    ]
    for section, model in _sections(Settings, ""):
        lines += ["", f"## {section or 'At the top'}", ""]
        if section and model.__doc__:
            lines += [model.__doc__, ""]
        lines += ["| key | default | meaning |", "| --- | --- | --- |"]
        for name, field in model.model_fields.items():
            if _model(field.annotation) is not None and name != "topic":
                continue
            default = "**required**" if field.is_required() else f"`{_default(field)}`"
            meaning = _cell(field.description or "")
            lines.append(f"| `{field.alias or name}` | {default} | {meaning} |")
    return "\n".join(lines) + "\n"


def _default(field: Any) -> object:
    value = field.get_default(call_default_factory=True)
    return "" if value in (None, PydanticUndefined) else value


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
        "Every command takes `--json` after its name: one JSON object on stdout and nothing else",
        "there. Exit status: 0 done, 1 failed, 2 wrong use.",
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
            default = "" if callable(parameter.default) else parameter.default
            shown = "" if default in (None, False, (), []) else f"`{default}`"
            meaning = _cell(getattr(parameter, "help", "") or "")
            lines.append(
                f"| {names} | {'**required**' if parameter.required else shown} | {meaning} |"
            )
    return lines


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def metrics_page() -> str:
    """Describe every metric of every role."""
    lines = ["# Metrics", "", "Each role answers at `/metrics` where its `metrics_port` is set."]
    role = ""
    for role_of, metric in catalogue.metrics():
        if role_of != role:
            role = role_of
            lines += ["", f"## {role}", "", "| metric | type | meaning |", "| --- | --- | --- |"]
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        lines.append(f"| `{name}` | {metric.type} | {_cell(metric.documentation)} |")
    return "\n".join(lines) + "\n"


def messages_page() -> str:
    """Describe what crosses a process border."""
    lines = ["# Messages", "", (messages.__doc__ or "").strip()]
    kinds = [
        kind
        for kind in vars(messages).values()
        if isinstance(kind, type) and issubclass(kind, messages.Message)
    ]
    for kind in kinds:
        lines += ["", f"## {kind.__name__}", "", (kind.__doc__ or "").strip(), ""]
        lines += ["| field | type |", "| --- | --- |"]
        for name, field in kind.model_fields.items():
            shown = getattr(field.annotation, "__name__", str(field.annotation))
            if get_args(field.annotation):
                shown = str(field.annotation).replace("typing.", "")
            lines.append(f"| `{name}` | `{_cell(shown)}` |")
    return "\n".join(lines) + "\n"
