"""What changed between two readings of the settings, and what of it a role can take over. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

from lagless.settings.tree import Settings

Role = Literal["monitor", "controller", "consumer"]

UNDER_WAY: Mapping[Role, frozenset[str]] = {
    "monitor": frozenset(
        {
            "monitor.interval",
            "monitor.shortest_interval",
            "monitor.window",
            "monitor.detect_changes",
        }
    ),
    "controller": frozenset(
        {
            "controller.algorithm",
            "controller.slack",
            "controller.iteration",
            "controller.rebalance",
            "controller.pause",
            "controller.catch_up",
            "controller.delay",
            "controller.dead_band",
            "controller.shrink_after",
            "controller.max_move",
            "controller.min_consumers",
            "controller.max_consumers",
            "controller.spares",
            "controller.stale_after",
            "consumer.max_rate",
            "consumer.calibrated_rate",
            "consumer.wait_seconds",
            "consumer.lost_after",
            "consumer.start_deadline",
            "consumer.order_deadline",
            "consumer.cycle_deadline",
        }
    ),
    "consumer": frozenset(
        {
            "consumer.max_rate",
            "consumer.batch_bytes",
            "consumer.max_batch_bytes",
            "consumer.wait_seconds",
            "consumer.shortest_wait",
        }
    ),
}
"""The settings that a role takes over while it runs."""
OF_OTHERS: Mapping[Role, tuple[str, ...]] = {
    "monitor": ("controller", "consumer", "dashboard", "provisioner", "lake", "spark", "topic"),
    "controller": ("dashboard", "monitor", "spark", "topic", "consumer"),
    "consumer": ("dashboard", "monitor", "controller", "provisioner", "consumer.calibrated_rate"),
}
"""Sections and settings of no interest to a role, unless they are named in the other tables."""
NEEDED: Mapping[Role, frozenset[str]] = {
    "monitor": frozenset({"controller.metadata_topic"}),
    "controller": frozenset({"monitor.topic"}),
    "consumer": frozenset({"monitor.topic", "controller.metadata_topic"}),
}
"""Names of topics of other roles."""


@dataclass(frozen=True, slots=True)
class Reloaded:
    """How a role takes over changed settings."""

    settings: Settings
    """The ones before, with those of the new ones that can be taken over."""
    taken: tuple[str, ...]
    left: tuple[str, ...]
    """Settings that count after a restart only."""

    @property
    def sentence(self) -> str:
        """Say what was taken over and what was not; "" if nothing concerns the role."""
        parts = [f"in effect from now on: {', '.join(self.taken)}"] if self.taken else []
        if self.left:
            parts.append(f"in effect after a restart: {', '.join(self.left)}")
        return f"the settings changed; {'; '.join(parts)}" if parts else ""


def reloaded(before: Settings, after: Settings, role: Role) -> Reloaded:
    """Return what a role makes of new settings."""
    names = [name for name in changed(before, after) if _concerns(role, name)]
    taken = tuple(name for name in names if name in UNDER_WAY[role])
    left = tuple(name for name in names if name not in UNDER_WAY[role])
    updates: dict[str, dict[str, Any]] = {}
    for name in taken:
        section, _, field = name.partition(".")
        updates.setdefault(section, {})[field] = getattr(getattr(after, section), field)
    sections = {
        section: getattr(before, section).model_copy(update=fields)
        for section, fields in updates.items()
    }
    return Reloaded(before.model_copy(update=sections), taken, left)


def changed(before: BaseModel, after: BaseModel, path: str = "") -> Iterator[str]:
    """Yield the names of the settings that differ, such as controller.pause."""
    for name in type(before).model_fields:
        old, new = getattr(before, name), getattr(after, name)
        if old == new:
            continue
        whole = f"{path}{name}"
        if isinstance(old, BaseModel) and isinstance(new, BaseModel):
            yield from changed(old, new, f"{whole}.")
        else:
            yield whole


def _concerns(role: Role, name: str) -> bool:
    if name in UNDER_WAY[role] or name in NEEDED[role]:
        return True
    return not any(name == other or name.startswith(f"{other}.") for other in OF_OTHERS[role])
