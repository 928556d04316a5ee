"""Settings that change under way: what each role takes over, and how the file is watched."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lagless import settings
from lagless.errors import WrongSettings
from lagless.settings import Settings, takeover
from lagless.settings.takeover import Role
from lagless.wiring.reloading import Reloading
from tests import waiting

LEAST: dict[str, Any] = {"group": "orders", "topics": ["orders"], "lake": {"path": "lake"}}
BEFORE = settings.parse(LEAST)
ROLES: tuple[Role, ...] = ("monitor", "controller", "consumer")
NAMES = sorted(frozenset().union(*takeover.UNDER_WAY.values(), *takeover.NEEDED.values()))


def at(tree: Settings, name: str) -> Any:
    value: Any = tree
    for part in name.split("."):
        value = getattr(value, part)
    return value


def test_every_name_in_the_tables_is_a_setting() -> None:
    unset = ["consumer.max_rate", "controller.delay"]
    assert [name for name in NAMES if at(BEFORE, name) is None] == unset


@pytest.mark.parametrize(
    ("role", "word", "taken", "left"),
    [
        ("controller", "controller.pause=3", ["controller.pause"], []),
        ("controller", "controller.dead_band=0", ["controller.dead_band"], []),
        ("controller", "controller.metadata_topic=m", [], ["controller.metadata_topic"]),
        ("controller", "kafka.bootstrap=k:1", [], ["kafka.bootstrap"]),
        ("controller", "monitor.interval=3", [], []),
        ("controller", "consumer.batch_bytes=3", [], []),
        ("controller", "consumer.lost_after=30", ["consumer.lost_after"], []),
        ("controller", "provisioner.image=x", [], ["provisioner.image"]),
        ("monitor", "monitor.interval=3", ["monitor.interval"], []),
        ("monitor", "monitor.topic=x", [], ["monitor.topic"]),
        ("monitor", "controller.pause=3", [], []),
        ("monitor", 'topics=["a"]', [], ["topics"]),
        ("consumer", "consumer.batch_bytes=3", ["consumer.batch_bytes"], []),
        ("consumer", "consumer.heartbeat=1", [], ["consumer.heartbeat"]),
        ("consumer", "monitor.topic=x", [], ["monitor.topic"]),
        ("consumer", "dashboard.port=1", [], []),
        ("consumer", "topic.orders.format=text", [], ["topic"]),
    ],
)
def test_what_a_role_takes_over(role: Role, word: str, taken: list[str], left: list[str]) -> None:
    after = settings.parse(LEAST, overrides=[word])
    found = takeover.reloaded(BEFORE, after, role)
    assert (list(found.taken), list(found.left)) == (taken, left)
    assert bool(found.sentence) == bool(taken or left)
    assert all(name in found.sentence for name in taken + left)
    assert all(at(found.settings, name) == at(after, name) for name in taken)
    assert all(at(found.settings, name) == at(BEFORE, name) for name in left)


@given(st.sampled_from(ROLES), st.sets(st.sampled_from(["pause", "iteration", "stale_after"])))
def test_only_what_is_taken_over_changes(role: Role, names: set[str]) -> None:
    after = settings.parse(LEAST, overrides=[f"controller.{name}=17" for name in names])
    found = takeover.reloaded(BEFORE, after, role)
    assert set(takeover.changed(BEFORE, found.settings)) == set(found.taken)
    again = takeover.reloaded(found.settings, after, role)
    assert again.taken == ()
    assert again.left == found.left


def watched(file: Path) -> tuple[Reloading, list[str], list[Settings]]:
    said: list[str] = []
    applied: list[Settings] = []

    def read() -> Settings:
        return settings.load(file, {})

    reloading = Reloading(read(), file, read, "controller", said.append)
    reloading._apply = applied.append
    return reloading, said, applied


def write(file: Path, pause: float) -> None:
    file.write_text(
        f'group = "orders"\ntopics = ["orders"]\n[lake]\npath = "lake"\n'
        f"[controller]\npause = {pause}\n"
    )


def test_a_config_map_that_is_swapped_is_noticed(tmp_path: Path) -> None:
    """Do what the kubelet does: a new folder, and a symbolic link that is replaced."""
    for version in (1, 2):
        folder = tmp_path / f"..version-{version}"
        folder.mkdir()
        write(folder / "lagless.toml", version)
    (tmp_path / "..data").symlink_to("..version-1")
    (tmp_path / "lagless.toml").symlink_to("..data/lagless.toml")
    reloading, said, applied = watched(tmp_path / "lagless.toml")
    assert not reloading.look()
    (tmp_path / "..new").symlink_to("..version-2")
    (tmp_path / "..new").rename(tmp_path / "..data")
    assert reloading.look()
    assert [tree.controller.pause for tree in applied] == [2]
    assert said == ["the settings changed; in effect from now on: controller.pause"]
    assert not reloading.look()


def test_wrong_settings_change_nothing_and_are_said_once(tmp_path: Path) -> None:
    file = tmp_path / "lagless.toml"
    write(file, 1)
    reloading, said, applied = watched(file)
    file.write_text("group =")
    assert not reloading.look()
    assert not reloading.look()
    file.unlink()
    assert not reloading.look()
    assert len(said) == 2
    assert all("those before stay in effect" in sentence for sentence in said)
    assert applied == []
    write(file, 5)
    assert reloading.look()
    assert reloading.settings.controller.pause == 5


def test_a_signal_reads_the_file_again(tmp_path: Path) -> None:
    file = tmp_path / "lagless.toml"
    write(file, 1)
    said: list[str] = []
    read: Callable[[], Settings] = lambda: settings.load(file, {})  # noqa: E731
    before = signal.getsignal(signal.SIGHUP)
    try:
        reloading = Reloading(read(), file, read, "controller", said.append).on_signal()
        reloading.start(lambda tree: None)
        os.kill(os.getpid(), signal.SIGHUP)
        waiting.until(lambda: said, "the answer to the signal", 60)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert said == ["the settings were read again: nothing that concerns this role has changed"]


def test_a_role_that_cannot_begin_says_so(tmp_path: Path) -> None:
    with pytest.raises(WrongSettings):
        watched(tmp_path / "nowhere.toml")
