"""The group's status: who reads what, and what the controller would do. Read-only."""

import json
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from lagless import extras, messages
from lagless.controller import machine, weights
from lagless.controller.state import Member, State
from lagless.errors import GiveUp, TryAgain, WrongInput
from lagless.history import History
from lagless.messages import AnyDecision, Assigned, Heartbeat, Lost, Warned
from lagless.model import TopicPartition
from lagless.packing import scores
from lagless.ports import GroupSummary
from lagless.settings import Settings
from lagless.wiring import controller

with extras.needed("kafka"):
    from lagless.adapters.kafka import contact, group_list, mail, topic_records
    from lagless.adapters.kafka.speeds import LatestSpeeds

LARGEST = 1e18
"""Bytes/s of a partition; more is a mistake."""
LOOK_BACK = 5000
"""Messages of the mail in which the last heartbeats are looked for."""


def known(settings: Settings) -> tuple[State, AnyDecision | None]:
    """Return what a controller would know now, by reading along and asking nobody."""
    contact.reach(settings.kafka)
    persisted = mail.persisted(settings)
    now = time.time()
    beats = _heartbeats(settings)
    over = persisted.ended if persisted is not None else {}
    members = {
        n: Member(
            n,
            beat.incarnation,
            heard_at=beat.at,
            ready=beat.state == "ready",
            highest=beat.highest,
            held={TopicPartition(t, k): g for t, k, g in beat.held},
            last=beat,
        )
        for n, beat in beats.items()
        if beat.incarnation not in over and now - beat.at < settings.consumer.lost_after
    }
    with closing(LatestSpeeds(settings)) as reader:
        latest = reader.latest()
    state = machine.begin(persisted, now)
    speeds = messages.flatten(latest.speeds) if latest is not None else {}
    held = {p for m in members.values() for p in m.held}
    state = replace(
        state,
        members=members,
        team=state.team | members.keys(),
        speeds=speeds,
        partitions=dict.fromkeys(sorted(speeds.keys() | held), 0.0),
        measured_at=latest.at if latest is not None else float("-inf"),
        stale=frozenset(TopicPartition(*p) for p in (latest.stale if latest else ())),
    )
    log = History(controller.events(settings, start=-LOOK_BACK))
    return state, log.latest(Assigned, Lost, Warned)


def everywhere(settings: Settings) -> list[GroupSummary]:
    """Return every group of the cluster, by name."""
    contact.reach(settings.kafka)
    return group_list.summaries(settings, time.time())


def from_file(settings: Settings, file: Path, previous: Path | None) -> State:
    """Return a state whose speeds (and assignment) are those of files: {"topic:0": number}."""
    now = time.time()
    speeds = _numbers(file)
    before = {p: int(n) for p, n in _numbers(previous).items()} if previous else {}
    members = {}
    for n in sorted(set(before.values())):
        if n < 1:
            raise WrongInput(f"{previous}: {n} is not a consumer; numbers start at 1")
        held = {p: 1 for p, owner in before.items() if owner == n}
        members[n] = Member(n, f".{n}", heard_at=now, ready=True, held=held)
    return replace(
        machine.begin(None, now),
        members=members,
        team=frozenset(members),
        target=before,
        speeds=speeds,
        partitions=dict.fromkeys(speeds, 0.0),
        measured_at=now,
    )


def loads(settings: Settings, state: State) -> dict[int, float]:
    """Return each consumer's load."""
    weight = weights.weights(state, controller.policy(settings))
    return scores.loads(weight, state.holders())


def _numbers(file: Path) -> dict[TopicPartition, float]:
    try:
        found = json.loads(file.read_text())
    except FileNotFoundError as error:
        raise WrongInput(f"{file} does not exist") from error
    except (ValueError, RecursionError) as error:
        raise WrongInput(f"{file} is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise WrongInput(f'{file}: should be one JSON object, {{"topic:0": number, …}}')
    for name, number in found.items():
        if type(number) not in (int, float):
            raise WrongInput(f'{file}: should be one JSON object, {{"topic:0": number, …}}')
        if not 0 <= number <= LARGEST:
            shown = "too large" if number > LARGEST else str(number)
            raise WrongInput(f"{file}: {name!r} is {shown} and should be 0 or more, in bytes/s")
    return {_named(name): float(number) for name, number in found.items()}


def _named(text: str) -> TopicPartition:
    topic, colon, number = text.rpartition(":")
    known = colon and number.isascii() and number.isdigit() and len(number) < 10
    return TopicPartition(topic, int(number)) if known else TopicPartition(text, 0)


def _heartbeats(settings: Settings) -> dict[int, Heartbeat]:
    try:
        reader = topic_records.Reader(
            settings.kafka, settings.controller.metadata_topic, 0, -LOOK_BACK
        )
    except TryAgain as error:
        raise GiveUp(f"no controller has run for this group yet ({error})") from error
    return {beat.consumer: beat for beat in reader.rest(Heartbeat, settings.group, 30)}
