"""Every group of lagless in a cluster, as its topics tell."""

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka.admin import AdminClient

from lagless import messages
from lagless.adapters.kafka import connection, failures, mail, topic_records
from lagless.errors import LaglessError
from lagless.messages import Heartbeat
from lagless.ports import GroupSummary
from lagless.settings import Settings

TIMEOUT = 10.0
LOOK_BACK = 5000
"""Messages of the mail in which the last heartbeats are looked for."""
AT_ONCE = 8
"""Groups whose states are read side by side."""


def summaries(settings: Settings, now: float) -> list[GroupSummary]:
    """Return the state of every group whose topics this user may see, by name."""
    admin = AdminClient(connection.confluent(settings.kafka))
    with failures.translated("listing topics"):
        topics = set(admin.list_topics(timeout=TIMEOUT).topics)
    beats = _heartbeats(settings, topics, now)

    def read(name: str) -> GroupSummary:
        return _summary(settings, name, [b for (group, _), b in beats.items() if group == name])

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(read, names(topics)))


def names(topics: Collection[str]) -> list[str]:
    """Return the groups whose own topics are among these."""
    found = {name.removesuffix(".controller") for name in topics if name.endswith(".controller")}
    return sorted(g for g in found if g and f"{g}.state" in topics and f"{g}.events" in topics)


def _summary(settings: Settings, name: str, beats: Sequence[Heartbeat]) -> GroupSummary:
    trouble = ""
    state = None
    try:
        state = mail.persisted(settings.model_copy(update={"group": name}))
    except LaglessError as error:
        trouble = str(error)
    if state is None:
        return GroupSummary(name, trouble=trouble or "no controller has led it yet")
    return GroupSummary(
        name,
        mode=state.mode.name,
        generation=state.generation,
        consumers=len(state.team),
        partitions=sum(map(len, state.target.values())),
        alive=len(beats),
        lag_seconds=max((beat.lag_seconds for beat in beats), default=None),
        lag_bytes=sum(beat.lag_bytes for beat in beats) if beats else None,
    )


def _heartbeats(
    settings: Settings, topics: Collection[str], now: float
) -> dict[tuple[str, int], Heartbeat]:
    """Return the last heartbeat of each consumer that lives, of all groups with this mail."""
    topic = settings.controller.metadata_topic
    if topic not in topics:
        return {}
    reader = topic_records.Reader(settings.kafka, topic, 0, -LOOK_BACK)
    return {
        (beat.group, beat.consumer): beat
        for beat in reader.rest(messages.Heartbeat, None, TIMEOUT)
        if now - beat.at < settings.consumer.lost_after and beat.state != "ending"
    }
