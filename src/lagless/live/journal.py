"""What a part observed, kept in a file as it goes, so that a run can be taken up again."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lagless.errors import WrongInput

VERSION = 1


class Journal:
    """The file of one part: its settings, whether it is complete, and lists of observations."""

    def __init__(self, file: Path, part: str, settings: Mapping[str, Any]) -> None:
        self.file = file
        self._began = time.monotonic()
        self._before = 0.0
        self.resumed = file.exists()
        """Whether an earlier run left observations."""
        self.data: dict[str, Any] = {
            "version": VERSION,
            "part": part,
            "settings": dict(settings),
            "complete": False,
        }
        if self.resumed:
            self.data = read(file)
        known = self.data["settings"]
        other = [name for name in settings if known.get(name) != settings[name]]
        if other:
            name = other[0]
            raise WrongInput(
                f"{file} was made with {name} = {known.get(name)} and not {settings[name]}: "
                "name another folder, or remove the file"
            )

    def begin(self) -> None:
        """Count the time of this run from now on."""
        self._before = float(self.data.get("seconds", 0.0))
        self._began = time.monotonic()

    @property
    def complete(self) -> bool:
        """Whether the part has all that it was asked for."""
        return bool(self.data["complete"])

    def all(self, key: str) -> list[Any]:
        """Give the observations under a name."""
        found: list[Any] = self.data.setdefault(key, [])
        return found

    def note(self, key: str, *observations: Any) -> None:
        """Add observations and write them down."""
        self.all(key).extend(observations)
        self.save()

    def begin_anew(self, *keys: str) -> None:
        """Forget what an interrupted run left under these names."""
        for key in keys:
            self.data.pop(key, None)
        self.resumed = False

    def finish(self, **facts: Any) -> None:
        """Write down that the part is complete, with facts about it."""
        self.data.update(facts)
        self.data["complete"] = True
        self.save()

    def save(self) -> None:
        """Write the file; a crash leaves the old one or the new one."""
        self.data["seconds"] = round(self._before + time.monotonic() - self._began, 1)
        self.file.parent.mkdir(parents=True, exist_ok=True)
        draft = self.file.with_name(f".{self.file.name}")
        draft.write_text(json.dumps(self.data, ensure_ascii=False) + "\n", "utf-8")
        draft.replace(self.file)


def read(file: Path) -> dict[str, Any]:
    """Read the file of a part."""
    try:
        data = json.loads(file.read_text("utf-8"))
    except ValueError as error:
        raise WrongInput(f"{file} is not JSON ({error}): remove it to measure anew") from error
    if not isinstance(data, dict) or data.get("version") != VERSION or "settings" not in data:
        raise WrongInput(f"{file} has no observations of this version: remove it to measure anew")
    return data
