"""What is said of a survey: numbers, warnings, and lines that can be pasted as they are."""

import json
import tomllib
from dataclasses import replace
from typing import Any

import pytest

from lagless.cli import adopt_command
from lagless.controller.group.learning import Learning
from lagless.group_ports import GroupMember, Membership
from lagless.lab import adoption
from lagless.model import TopicPartition
from lagless.operations.group_survey import Subject, Survey
from lagless.settings import Settings, parse

MB = 1e6
READ = {"a": 10 * MB, "b": 2 * MB}
PARTITIONS = tuple(TopicPartition("orders", k) for k in range(4))
KAFKA = {"bootstrap": "kafka:9092", "security": {"protocol": "SSL", "ca_file": "/etc/ca.pem"}}


def settings(**more: Any) -> Settings:
    document = {"group": "shop", "topics": ["orders"], "lake": {"path": "lake"}, "kafka": KAFKA}
    return parse(document | more)


def member(name: str, *numbers: int, static: bool = True) -> GroupMember:
    held = frozenset(PARTITIONS[k] for k in numbers)
    return GroupMember(name, name if static else "", "app", "10.0.0.1", held)


def survey(**more: Any) -> Survey:
    group = Membership(
        "stable", "consumer", "uniform", (member("a", 0, 1), member("b", 2, 3), member("c"))
    )
    found = Survey(
        group=group,
        seconds=120,
        step=30,
        partitions=PARTITIONS,
        speeds=((6 * MB, 6 * MB, MB, MB),) * 4,
        holders=(("a", "a", "b", "b"),) * 4,
        lag={PARTITIONS[0]: 60 * MB},
        learned=Learning(samples={"a": (10 * MB, 10 * MB)}, lately=READ),
    )
    return replace(found, **more)


def judged(given: float | None = None, found: Survey | None = None, **more: Any) -> dict[str, Any]:
    found = found or survey()
    subject = Subject(found.group, ("orders",), ())
    answer = adoption.judge(settings(**more), subject, found, given)
    json.dumps(answer, allow_nan=False)
    return answer


def test_a_skewed_group_is_overloaded_now_and_not_then() -> None:
    found = judged()
    assert found["rate"] == {"value": 10 * MB, "source": "measured", "members": 1}
    assert found["capacity"] == pytest.approx(10 * MB * 5 / 6)
    assert (found["now"]["consumers"], found["now"]["idle"]) == (3, 1)
    assert found["now"]["worst_load"] == 12 * MB
    assert found["then"]["worst_load"] <= found["capacity"]
    assert found["then"]["consumers"] == 2
    assert found["then"]["late_bytes"] == 0 < found["now"]["late_bytes"]
    assert found["then"]["first_moves"] == 1
    assert found["members"]["a"]["lag_bytes"] == 60 * MB
    assert found["warnings"] == []


def test_the_rate_of_the_option_wins() -> None:
    found = judged(given=20 * MB)
    assert found["rate"] == {"value": 20 * MB, "source": "option", "members": 1}
    assert found["then"]["consumers"] == 1


def test_without_a_backlog_the_highest_rate_seen_is_assumed_and_said() -> None:
    found = judged(found=survey(learned=Learning(lately=READ), lag={}))
    assert found["rate"] == {"value": 10 * MB, "source": "lower bound", "members": 0}
    assert any("no member had a backlog" in words for words in found["warnings"])
    assert not any(line.startswith("rate") for line in found["lines"]["settings"])


def test_a_group_that_commits_nothing_is_assumed_to_keep_up() -> None:
    found = judged(found=survey(learned=Learning(), lag={}))
    assert found["rate"]["source"] == "assumed"
    assert found["rate"]["value"] == 12 * MB
    assert any("committed nothing" in words for words in found["warnings"])


def test_a_group_without_members_is_planned_for_but_not_compared() -> None:
    empty = survey(
        group=Membership("empty", "consumer", "", ()), holders=(("",) * 4,) * 4, learned=Learning()
    )
    found = judged(given=10 * MB, found=empty)
    assert found["now"] is None
    assert found["then"]["consumers"] == 2
    assert found["members"] == {}
    assert any("no members" in words for words in found["warnings"])


def test_a_partition_that_nobody_reads_is_left_out_and_named() -> None:
    found = judged(found=survey(holders=(("a", "a", "b", ""),) * 4))
    assert found["unread"] == ["orders:3"]
    assert found["now"]["bytes"] == 3 * 30 * 13 * MB
    assert any("orders:3" in words for words in found["warnings"])


def test_one_row_gives_no_comparison() -> None:
    short = survey(speeds=survey().speeds[:1], holders=survey().holders[:1])
    assert judged(found=short)["then"] is None


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"controller": {"max_consumers": 1}}, "controller.max_consumers is 1"),
        ({"consumer": {"max_rate": "1 MB/s"}}, ""),
        ({"members": {"kind": "group", "rate": "4 MB/s"}}, "faster than the capacity"),
    ],
)
def test_what_the_settings_forbid_is_said(changed: dict[str, Any], words: str) -> None:
    found = judged(**changed)
    assert any(words in warning for warning in found["warnings"]) == bool(words)


def test_members_of_the_classic_protocol_and_without_names_are_told_so() -> None:
    group = Membership("stable", "classic", "range", (member("x", 0, 1, 2, 3, static=False),))
    found = judged(found=survey(group=group))
    said = " ".join(found["warnings"])
    assert "classic protocol" in said
    assert "no group.instance.id" in said


def test_the_lines_for_the_settings_hold_no_secret_and_all_that_connects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = judged(given=8 * MB)["lines"]
    text = "\n".join(lines["settings"])
    assert 'group = "shop"' in text
    assert 'bootstrap = "kafka:9092"' in text
    assert 'ca_file = "/etc/ca.pem"' in text
    assert 'rate = "8 MB/s"' in text
    assert "password" not in text
    assert lines["broker"] == (
        "group.consumer.assignors=uniform,range,lagless.assignor.PlanAssignor",
    )
    monkeypatch.chdir("/")
    taken = parse(tomllib.loads(text))
    assert (taken.group, taken.members.kind, taken.max_rate) == ("shop", "group", 8 * MB)


@pytest.mark.parametrize(
    "found", [judged(), judged(found=survey(learned=Learning(lately=READ), lag={}))]
)
def test_people_are_shown_all_of_it(
    found: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    adopt_command.show(found)
    said = capsys.readouterr().out
    for words in ("group shop: 3 members", "worst load", "12 MB/s", "group.remote.assignor"):
        assert words in said
