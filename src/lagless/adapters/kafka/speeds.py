"""Write speeds out, and the newest ones in."""

from lagless.adapters.kafka import reading, topics, writing
from lagless.messages import WriteSpeeds
from lagless.settings import Settings

LARGEST = 100_000_000
"""Bytes of a message before compression; the broker's limit counts after it."""
LOOK_BACK = 50
"""Messages, of all groups, in which a late reader looks for the newest of its own."""


class SpeedsOut:
    """Publish speeds, one compressed message each."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._topic_is_there = False
        self._writer = writing.Writer(
            settings.kafka, compression_type="zstd", message_max_bytes=LARGEST
        )

    def publish(self, speeds: WriteSpeeds) -> None:
        """Publish one message and return when the broker has it."""
        topic = self._settings.monitor.topic
        if not self._topic_is_there:
            topics.ensure(self._settings, only=[topic])
        self._topic_is_there = False  # until the broker says otherwise: it may be deleted
        self._writer.write(topic, 0, speeds.encode(), speeds.group)
        self._topic_is_there = True

    def close(self) -> None:
        """End the connection."""
        self._writer.close()


class LatestSpeeds:
    """The newest speeds of this group."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._reader: reading.Reader | None = None
        self._newest: WriteSpeeds | None = None

    @property
    def undecodable(self) -> int:
        """Count the messages that were skipped because nobody can read them."""
        return 0 if self._reader is None else self._reader.undecodable

    def latest(self, timeout: float = 0.0) -> WriteSpeeds | None:
        """Read what has arrived, waiting at most `timeout` seconds; give the newest of all time.

        None as long as this group has published nothing.
        """
        reader = self._reader
        if reader is None:
            reader = reading.Reader(
                self._settings.kafka,
                self._settings.monitor.topic,
                0,
                -LOOK_BACK,
                fetch_message_max_bytes=LARGEST,
            )
            self._reader = reader
            records = reader.drain_to_end()
        else:
            records = reader.drain(timeout)
        # The key says whose it is, so that large messages of others need not be read.
        for record in reversed(records):
            if record.key not in (None, self._settings.group):
                continue
            speeds = reader.decode(WriteSpeeds, record, self._settings.group)
            if speeds is not None:
                if self._newest is None or speeds.at >= self._newest.at:
                    self._newest = speeds
                break
        return self._newest

    def close(self) -> None:
        """End the connection."""
        if self._reader is not None:
            self._reader.close()
