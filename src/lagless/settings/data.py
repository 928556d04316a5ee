"""The settings of the data path: Kafka, the topics, Spark and the lake."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from lagless.settings import partitioning
from lagless.settings.branch import Branch, like, listed
from lagless.settings.partitioning import PartitionColumn
from lagless.settings.security import Security
from lagless.settings.storage import Bucket, StorageSettings, place
from lagless.settings.units import Heap, Rate, Seconds, Size

_SPARK = r"local(\[.*\])?|yarn|(spark|k8s|sc)://.*"
_HEAP = "spark.driver.memory"


class KafkaSettings(Branch):
    """How to connect to Kafka and which records to read."""

    bootstrap: str = "127.0.0.1:9092"
    """Brokers: host:port, host:port, …."""
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    """read_committed skips records of aborted transactions."""
    security: Security = Security()
    """Encryption and authentication."""


class TopicSettings(Branch):
    """How a topic's records are parsed, and the table they are written to."""

    format: Literal["raw", "text", "json", "avro"] = "raw"
    """Format of record values."""
    key_format: Literal["raw", "text", "json", "avro"] = "raw"
    """Format of record keys: `_key` holds bytes (raw), text, or a struct of the key's fields (json
    and avro). Records whose key does not fit are rejected."""
    key_schema: str | None = None
    """Schema of JSON keys as Spark DDL; inferred from the data by default."""
    headers: bool | None = None
    """Keep the headers of records in `_headers`; by default they are kept for raw and text, and not
    for json and avro."""
    schema_: str | None = Field(None, alias="schema")
    """Schema of JSON values as Spark DDL; inferred from the data by default."""
    evolve: bool = False
    """Add a column for each new field; if false, new fields are only counted."""
    transform: Annotated[str | None, like(r"[\w.]+:[A-Za-z_]\w*", "module:function")] = None
    """Your function DataFrame -> DataFrame, as module:function."""
    table: str | None = None
    """Name of the table; the topic's name by default."""
    partition_by: Annotated[tuple[str, ...], BeforeValidator(listed)] = ()
    """Columns that partition the table: a field, `_partition`, `date(…)` or `hour(…)` of
    `_timestamp` or of a field. Fixed when the table is created."""

    @property
    def has_text_keys(self) -> bool:
        """Whether `_key` is text."""
        return self.key_format == "text"

    @property
    def has_key_fields(self) -> bool:
        """Whether `_key` is made of the fields of the key."""
        return self.key_format in ("json", "avro")

    @property
    def partition_columns(self) -> tuple[PartitionColumn, ...]:
        """What `partition_by` means."""
        has_fields = self.format not in ("raw", "text")
        transformed = self.transform is not None
        return partitioning.columns(self.partition_by, self.schema_, has_fields, transformed)

    @model_validator(mode="after")
    def _known_columns(self) -> Self:
        try:
            _ = self.partition_columns
        except ValueError as error:
            raise ValueError(f"partition_by: {error}") from error
        return self

    @model_validator(mode="after")
    def _whose_schema(self) -> Self:
        if self.format == "avro" and self.schema_ is not None:
            raise ValueError("schema is for JSON; the schemas of avro come from the registry")
        if self.key_format != "json" and self.key_schema is not None:
            raise ValueError('key_schema needs key_format = "json"')
        return self


class SparkSettings(Branch):
    """Which Spark the consumers use."""

    url: Annotated[str, like(_SPARK, "local, spark://…, k8s://… or sc://…")] = "local"
    """local: each consumer runs a Spark of its own. spark://…, k8s://… or yarn: the master of a
    cluster. sc://host:port: a Spark Connect server."""
    cores: int = Field(2, ge=1)
    """local: tasks that a consumer's own Spark runs at the same time."""
    memory: Heap = "2g"
    """Heap of the JVM that a consumer starts, such as `800m` or `2g`. The JVM and Python need some
    700 MB besides. Not with sc://, where the server has the heap."""
    archive: bool = True
    """local: start the JVM from an archive of its classes in the cache folder, which halves the
    time. A consumer that runs as a process creates the archive after its first start; images
    contain one."""
    conf: Mapping[str, str] = {}
    """Settings passed to Spark unchanged."""

    @model_validator(mode="after")
    def _agree(self) -> Self:
        """Refuse cores and memory where they would have no effect, or are set twice."""
        said = self.model_fields_set
        if self.is_remote and (unheard := sorted(said & {"cores", "memory"})):
            raise ValueError(
                f"{unheard[0]} has no effect with url {self.url!r}: that server has its own; "
                f'remove {unheard[0]}, or set url to "local"'
            )
        if not self.is_local and "cores" in said:
            raise ValueError(
                f"cores has no effect with url {self.url!r}: set spark.cores.max or "
                'spark.executor.cores in conf, or url to "local"'
            )
        if self.url.startswith("local[") and "cores" in said and self.master != self.url:
            raise ValueError(
                f"cores is {self.cores} and url is {self.url!r}: remove one of the two, or set url "
                'to "local"'
            )
        if "memory" in said and _HEAP in self.conf and self.conf[_HEAP] != self.memory:
            raise ValueError(
                f"memory is {self.memory!r} and {_HEAP} in conf is {self.conf[_HEAP]!r}: "
                f"remove {_HEAP}"
            )
        return self

    @property
    def is_remote(self) -> bool:
        """Whether Spark is a Connect server, so that the consumer starts no JVM."""
        return self.url.startswith("sc://")

    @property
    def is_local(self) -> bool:
        """Whether each consumer has a Spark of its own."""
        return self.url.startswith("local")

    @property
    def master(self) -> str:
        """The url as Spark takes it: `local` has its cores."""
        plain = self.url == "local" or ("cores" in self.model_fields_set and self.is_local)
        return f"local[{self.cores}]" if plain else self.url

    @property
    def configuration(self) -> dict[str, str]:
        """What Spark is started with: the heap, and `conf`, which is passed on unchanged."""
        return {**({} if self.is_remote else {_HEAP: self.memory}), **self.conf}


class LakeSettings(Branch):
    """Where the Delta tables are."""

    path: Annotated[Path | Bucket, BeforeValidator(place)]
    """Folder of the tables, or `s3://bucket/prefix`; one folder per table in it."""
    storage: StorageSettings = StorageSettings()
    log_retention_hours: Seconds = 24
    """Maximum hours to keep old entries of a table's log."""
    log_entries: int = Field(1000, ge=100)
    """Log entries kept before the newest checkpoint, for readers that follow the log. In a folder,
    every commit lists them all, so keeping more makes commits slower."""


class CompactionSettings(Branch):
    """How `lagless compact` merges small files."""

    watch: bool = False
    """Run `lagless compact --watch` as a process beside the controller, for as long as it runs."""
    target: Size = 128_000_000
    """Target size of merged files, in bytes. Files of at least half this size are left alone."""
    budget: Rate = 10e6
    """--watch: maximum bytes/s of small files that are merged, over all tables."""
    interval: Seconds = 10
    """--watch: seconds between two checks of the tables."""
