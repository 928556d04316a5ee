"""The options with which every command that needs settings takes them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from lagless.settings import Settings, load

Config = Annotated[
    Path,
    typer.Option("--config", "-c", help="The settings, a TOML file.", show_default=True),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Override one setting; may be repeated."),
]
DEFAULT = Path("lagless.toml")


def settings(config: Path, overrides: Sequence[str] | None) -> Settings:
    """Read the settings from the file, the environment and `--set`."""
    return load(config, overrides=overrides or ())
