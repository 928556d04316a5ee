"""Publishing write speeds, and reading the newest."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from datetime import datetime

from lagless.adapters.kafka import topic_records, topics
from lagless.adapters.kafka.topic_records import Record
from lagless.messages import WriteSpeeds
from lagless.settings import Settings

log = logging.getLogger("lagless.kafka")
AHEAD = 600.0
"""Seconds by which clocks may differ."""
LARGEST = 100_000_000
"""Bytes of a message before compression; the broker's limit counts after it."""
LOOK_BACK = 50
"""Messages, of all groups, in which a late reader looks for the newest of its own."""


class SpeedsOut:
    """Publish speeds, one compressed message each."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._topic_is_there = False
        self._writer = topic_records.Writer(
            settings.kafka, compression_type="zstd", message_max_bytes=LARGEST
        )

    def publish(self, speeds: WriteSpeeds) -> None:
        """Publish one message and return when the broker has it."""
        topic = self._settings.monitor.topic
        if not self._topic_is_there:
            topics.ensure(self._settings, only=[topic])
        self._topic_is_there = False  # until the write succeeds: the topic may be deleted
        self._writer.write(topic, 0, speeds.encode(), speeds.group)
        self._topic_is_there = True

    def close(self) -> None:
        """End the connection."""
        self._writer.close()


class LatestSpeeds:
    """The newest speeds of this group."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._reader: topic_records.Reader | None = None
        self._newest: WriteSpeeds | None = None

    def latest(self, timeout: float = 0.0) -> WriteSpeeds | None:
        """Read what has arrived, waiting at most `timeout` seconds; give the newest of all time.

        None as long as this group has published nothing.
        """
        reader, topic = self._reader, self._settings.monitor.topic
        if reader is None:
            reader = self._reader = topic_records.Reader(
                self._settings.kafka, topic, 0, -LOOK_BACK, fetch_message_max_bytes=LARGEST
            )
            records: Iterable[Record] = reader.drain_to_end()
        else:
            records = reader.drain(timeout)
        # The key names the group, so that large messages of other groups need not be parsed.
        group = self._settings.group
        speeds = reader.newest(WriteSpeeds, records, group, {None, group})
        if speeds is None:
            return self._newest
        ahead = speeds.at - time.time()
        if ahead > AHEAD:
            # Taken for true, nothing that is measured until then would be newer.
            log.warning(
                "ignored speeds in %s that are dated %.0f s in the future: the clocks of the "
                "machines differ, or someone else writes there",
                topic,
                ahead,
            )
        elif self._newest is None or speeds.at >= self._newest.at:
            self._newest = speeds
        return self._newest

    def close(self) -> None:
        """End the connection."""
        if self._reader is not None:
            self._reader.close()


def recorded(
    settings: Settings, since: datetime, told: Callable[[float], None] = lambda _: None
) -> Iterator[WriteSpeeds]:
    """Yield what was published for this group since a time; `told` hears the share that is read."""
    reader = topic_records.Reader(
        settings.kafka, settings.monitor.topic, 0, since, fetch_message_max_bytes=LARGEST
    )
    group = settings.group
    with closing(reader):
        for records, share in reader.batches():
            for record in records:
                if record.key not in (None, group):
                    continue
                if (speeds := reader.decode(WriteSpeeds, record, group)) is not None:
                    yield speeds
            told(share)
