"""The two parts of a record that formats read, and what belongs to each. Pure.

Both are read in one plan, so each has names of its own there.
"""

from dataclasses import dataclass

from lagless.settings import TopicSettings


@dataclass(frozen=True, slots=True)
class Part:
    """A part of Kafka's records."""

    column: str
    """Kafka's name for it."""
    prefix: str = ""
    """Prefix of its names in a plan."""

    def named(self, name: str) -> str:
        """Return the name of a column that a format adds for this part."""
        return f"_{self.prefix}{name}"

    def counted(self, name: str) -> str:
        """Return the name of something that is counted while this part is read."""
        return f"{self.prefix}{name}"

    @property
    def is_key(self) -> bool:
        """Whether this is the key: one column, and not the columns of the table."""
        return self.column == "key"

    @property
    def kept(self) -> str:
        """Return the beginning of the table property that keeps its schema."""
        return f"lagless.{self.prefix}schema."

    def schema_of(self, settings: TopicSettings) -> str | None:
        """Return the schema of JSON that the settings give it."""
        return settings.key_schema if self.is_key else settings.schema_


VALUE = Part("value")
KEY = Part("key", "key_")
