"""What people ask: who reads what, and what would be done. Reads along, changes nothing."""

import json
import time
from dataclasses import replace
from pathlib import Path

from lagless import extras, messages
from lagless.controller import facts, reassign, sentinel
from lagless.controller.facts import Member, State
from lagless.errors import GiveUp, TryAgain, WrongInput
from lagless.messages import Decision, Heartbeat
from lagless.model import TopicPartition
from lagless.settings import Settings
from lagless.wiring import controller

with extras.needed("kafka"):
    from lagless.adapters.kafka import controller_mailbox, reading
    from lagless.adapters.kafka.speeds import LatestSpeeds

LOOK_BACK = 5000
"""Messages of the mail in which the last heartbeats are looked for."""


def known(settings: Settings) -> tuple[State, Decision | None]:
    """Give what a controller would know now, by reading along and asking nobody."""
    persisted = controller_mailbox.persisted(settings)
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
    speeds = LatestSpeeds(settings)
    try:
        latest = speeds.latest()
    finally:
        speeds.close()
    state = facts.begin(persisted, now)
    measured = messages.flatten(latest.speeds) if latest is not None else {}
    held = {p for m in members.values() for p in m.held}
    partitions = dict.fromkeys(sorted(measured.keys() | held), 0.0)
    state = replace(
        state,
        members=members,
        team=state.team | members.keys(),
        speeds=measured,
        partitions=partitions,
        measured_at=latest.at if latest is not None else float("-inf"),
        stale=frozenset(TopicPartition(*p) for p in (latest.stale if latest else ())),
    )
    last = None
    for message in controller.events(settings, start=-LOOK_BACK):
        if isinstance(message, Decision) and message.decision in ("assignment", "lost", "warning"):
            last = message
    return state, last


def planned(settings: Settings, state: State) -> reassign.Plan:
    """Give the assignment that the controller would make now."""
    return reassign.plan(state, controller.policy(settings))


def from_file(settings: Settings, file: Path, previous: Path | None) -> State:
    """Give a state whose speeds (and assignment) are those of files: {"topic:0": number}."""
    now = time.time()
    speeds = {_name(k): float(v) for k, v in _object(file).items()}
    before = {_name(k): int(v) for k, v in (_object(previous) if previous else {}).items()}
    members = {}
    for n in sorted(set(before.values())):
        if n < 1:
            raise WrongInput(f"{previous}: there is no consumer {n}; numbers begin with 1")
        held = {p: 1 for p, owner in before.items() if owner == n}
        members[n] = Member(n, f".{n}", heard_at=now, ready=True, held=held)
    return replace(
        facts.begin(None, now),
        members=members,
        team=frozenset(members),
        target=before,
        speeds=speeds,
        partitions=dict.fromkeys(speeds, 0.0),
        measured_at=now,
    )


def loads(settings: Settings, state: State) -> dict[int, float]:
    """Give each consumer's load."""
    weight = sentinel.weights(state, controller.policy(settings))
    return sentinel.loads(weight, sentinel.holders(state))


def _object(file: Path) -> dict[str, float]:
    try:
        found = json.loads(file.read_text())
    except FileNotFoundError as error:
        raise WrongInput(f"{file}: there is no such file") from error
    except ValueError as error:
        raise WrongInput(f"{file}: this is not JSON: {error}") from error
    numbers = isinstance(found, dict) and all(isinstance(v, int | float) for v in found.values())
    if not numbers:
        raise WrongInput(f'{file}: should be one JSON object, {{"topic:0": number, …}}')
    return dict(found)


def _name(text: str) -> TopicPartition:
    topic, colon, number = text.rpartition(":")
    if not colon or not number.isdigit():
        return TopicPartition(text, 0)
    return TopicPartition(topic, int(number))


def _heartbeats(settings: Settings) -> dict[int, Heartbeat]:
    try:
        reader = reading.Reader(settings.kafka, settings.controller.metadata_topic, 0, -LOOK_BACK)
    except TryAgain as error:
        raise GiveUp(f"nobody has run a controller for this group yet ({error})") from error
    try:
        found: dict[int, Heartbeat] = {}
        for record in reader.drain_to_end(30):
            if b'"echo":' not in record.value and b'"kind":' not in record.value:
                beat = reader.decode(Heartbeat, record, settings.group)
                if beat is not None:
                    found[beat.consumer] = beat
        return found
    finally:
        reader.close()
