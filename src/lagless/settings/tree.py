"""The tree of settings, each field with its unit, its default and the reason for it."""

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)

from lagless import model
from lagless.settings.security import Security
from lagless.settings.units import Pause, Rate, Seconds, Size

_NAME = re.compile(r"[A-Za-z0-9._-]+")


class _Branch(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)


class KafkaSettings(_Branch):
    """Where Kafka is and how to read it."""

    bootstrap: str = Field("127.0.0.1:9092", description="host:port of one or more brokers.")
    isolation: Literal["read_committed", "read_uncommitted"] = Field(
        "read_committed", description="read_committed: records of aborted transactions never land."
    )
    security: Security = Field(Security(), description="How to connect; plain text by default.")


class MonitorSettings(_Branch):
    """How write speeds are measured."""

    interval: Seconds = Field(5, description="Seconds between measurements.")
    window: Seconds = Field(
        30, description="Seconds that a speed is averaged over; shorter is noisier, longer later."
    )
    topic: str = Field("monitor.writeSpeed", description="Topic the speeds are published to.")
    metrics_port: int | None = Field(
        None, ge=0, le=65535, description="Port of /metrics and /health; none by default."
    )

    @model_validator(mode="after")
    def _room(self) -> Self:
        if self.window < self.interval:
            raise ValueError(
                f"window is {self.window:g} s and should be at least interval, {self.interval:g} s"
            )
        return self


class ControllerSettings(_Branch):
    """When and how partitions are packed."""

    algorithm: str = Field("sticky", description="Packing algorithm, `lagless pack --help` lists.")
    slack: float = Field(
        0.05, ge=0, description="Share of consumers more than Best Fit Decreasing needs, for calm."
    )
    iteration: Seconds = Field(30, description="Seconds between reassignments at rest.")
    rebalance: Pause = Field(
        5, description="Seconds a move takes: C = max rate · (1 − rebalance/iteration)."
    )
    pause: Pause = Field(
        10, description="Seconds at least between two reassignments that are not urgent."
    )
    catch_up: Pause = Field(
        60, description="Seconds in which a backlog should be read: adds to weight; 0 turns it off."
    )
    min_consumers: int = Field(1, ge=0, description="Fewest consumers to keep.")
    max_consumers: int = Field(
        1000, ge=1, description="Most consumers to run; what does not fit is spread evenly."
    )
    stale_after: Seconds = Field(
        60, description="Seconds after which speeds are too old to scale down on."
    )
    metadata_topic: str = Field(
        "consumer.metadata", description="Topic of orders and receipts: 0 controller, N consumer N."
    )
    metrics_port: int | None = Field(
        None, ge=0, le=65535, description="Port of /metrics and /health; none by default."
    )

    @model_validator(mode="after")
    def _sane(self) -> Self:
        if self.rebalance >= self.iteration:
            raise ValueError(
                f"rebalance is {self.rebalance:g} s and should be less than iteration, "
                f"{self.iteration:g} s"
            )
        if self.max_consumers < self.min_consumers:
            raise ValueError(
                f"max_consumers is {self.max_consumers} and should be at least min_consumers, "
                f"{self.min_consumers}"
            )
        return self


class ConsumerSettings(_Branch):
    """How a consumer reads, and when it counts as lost."""

    max_rate: Rate | None = Field(
        None, description="Bytes/s that a consumer is held to (a quota); none by default."
    )
    calibrated_rate: Rate = Field(
        10e6, description="Bytes/s that a consumer reaches: what `lagless calibrate` measured."
    )
    batch_bytes: Size = Field(5_000_000, description="Bytes a cycle gathers: the paper's 5 MB.")
    wait_seconds: Seconds = Field(1, description="Seconds a cycle waits for its bytes.")
    max_batch_bytes: Size = Field(50_000_000, description="Bytes a cycle may take of a backlog.")
    heartbeat: Seconds = Field(2, description="Seconds between heartbeats.")
    lost_after: Seconds = Field(20, description="Seconds of silence after which it is lost.")
    start_deadline: Seconds = Field(120, description="Seconds until a new consumer must be ready.")
    order_deadline: Seconds = Field(30, description="Seconds until an order must have a receipt.")
    cycle_deadline: Seconds = Field(60, description="Seconds until a cycle must have ended.")
    start: Literal["earliest", "latest"] = Field(
        "earliest", description="Where to begin with a topic that the group has never read."
    )
    on_data_loss: Literal["fail", "continue"] = Field(
        "fail", description="When Kafka deleted records before they were read."
    )
    metrics_port: int | None = Field(
        None, ge=0, le=65535, description="Port of /metrics and /health; none by default."
    )

    @model_validator(mode="after")
    def _sane(self) -> Self:
        if self.max_batch_bytes < self.batch_bytes:
            raise ValueError(
                f"max_batch_bytes is {self.max_batch_bytes} and should be at least batch_bytes, "
                f"{self.batch_bytes}"
            )
        if self.lost_after <= self.heartbeat:
            raise ValueError(
                f"lost_after is {self.lost_after:g} s and should be more than heartbeat, "
                f"{self.heartbeat:g} s"
            )
        return self


class TopicSettings(_Branch):
    """What a topic's records are and which table they land in."""

    format: Literal["raw", "text", "json"] = Field("raw", description="How values are read.")
    schema_: str | None = Field(
        None, alias="schema", description="DDL of JSON fields; without one it is inferred once."
    )
    evolve: bool = Field(False, description="Add new fields as columns instead of counting them.")
    transform: str | None = Field(
        None, description="A function DataFrame -> DataFrame of yours, as module:function."
    )
    table: str | None = Field(None, description="Name of the table; the topic's name by default.")

    @field_validator("transform")
    @classmethod
    def _named(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[\w.]+:[A-Za-z_]\w*", value):
            raise ValueError(f"is {value!r} and should be module:function")
        return value


class SparkSettings(_Branch):
    """Which Spark does the work."""

    url: str = Field("local[2]", description="local[n], spark://…, k8s://… or sc://host:port.")
    conf: Mapping[str, str] = Field({}, description="Settings handed to Spark as they are.")

    @field_validator("url")
    @classmethod
    def _known(cls, value: str) -> str:
        if not re.match(r"local(\[.*\])?$|spark://|k8s://|sc://|yarn$", value):
            raise ValueError(f"is {value!r} and should be local[n], spark://…, k8s://… or sc://…")
        return value


class LakeSettings(_Branch):
    """Where the Delta tables are."""

    path: Path = Field(description="Folder of the tables, one per topic.")
    log_retention_hours: Seconds = Field(
        24, description="Hours that old entries of a table's log are kept at most."
    )
    log_entries: int = Field(
        1000,
        ge=100,
        description="Entries kept behind the newest checkpoint of a table's log, for readers that "
        "follow it; every commit lists them all.",
    )

    @field_validator("path", mode="before")
    @classmethod
    def _local(cls, value: Any) -> Any:
        if isinstance(value, str) and "://" in value:
            if value.startswith("file://"):
                return value.removeprefix("file://")
            raise ValueError(f"is {value!r}: only a folder of a file system is supported")
        return value


class ProvisionerSettings(_Branch):
    """Who starts and stops consumers."""

    kind: Literal["processes", "kubernetes"] = Field(
        "processes", description="processes on this machine, or one Kubernetes Deployment each."
    )
    directory: Path | None = Field(
        None, description="processes: folder for pid files and logs; next to the lake by default."
    )
    restarts: int = Field(5, ge=0, description="Starts of one consumer within `restart_window`.")
    restart_window: Seconds = Field(300, description="Seconds over which restarts are counted.")
    namespace: str | None = Field(None, description="kubernetes: namespace; the own by default.")
    image: str | None = Field(None, description="kubernetes: image of the consumer.")
    template: Path | None = Field(
        None, description="kubernetes: YAML of a Deployment that is laid over the built-in one."
    )
    kubeconfig: Path | None = Field(None, description="kubernetes: file; in-cluster by default.")
    owner: str | None = Field(
        None, description="kubernetes: Deployment whose deletion deletes the consumers too."
    )
    config_map: str | None = Field(
        None, description="kubernetes: ConfigMap with lagless.toml for the consumers."
    )


class DashboardSettings(_Branch):
    """The page."""

    host: str = Field("127.0.0.1", description="Address to listen on.")
    port: int = Field(8080, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    token: SecretStr | None = Field(
        None, description="Token for anything that changes the group; only from the environment."
    )


def _listed(value: Any) -> Any:
    return [entry.strip() for entry in value.split(",")] if isinstance(value, str) else value


class Settings(_Branch):
    """Everything that can be set."""

    group: str = Field(description="Kafka group of the offsets, and prefix of what lagless names.")
    topics: Annotated[tuple[str, ...], BeforeValidator(_listed)] = Field(
        min_length=1, description="Names, or regular expressions for the whole name."
    )
    kafka: KafkaSettings = KafkaSettings()
    monitor: MonitorSettings = MonitorSettings()
    controller: ControllerSettings = ControllerSettings()
    consumer: ConsumerSettings = ConsumerSettings()
    topic: Mapping[str, TopicSettings] = Field({}, description="Per topic, by its name.")
    spark: SparkSettings = SparkSettings()
    lake: LakeSettings
    provisioner: ProvisionerSettings = ProvisionerSettings()
    dashboard: DashboardSettings = DashboardSettings()

    @field_validator("group")
    @classmethod
    def _group(cls, value: str) -> str:
        if not _NAME.fullmatch(value) or len(value) > 200:
            raise ValueError(f'is {value!r} and should be letters, digits, ".", "_" and "-"')
        return value

    @field_validator("topics")
    @classmethod
    def _patterns(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for entry in value:
            try:
                re.compile(entry)
            except re.error as error:
                raise ValueError(f"{entry!r} is no regular expression: {error}") from error
        return value

    @cached_property
    def _matchers(self) -> tuple[frozenset[str], tuple[re.Pattern[str], ...]]:
        names = frozenset(entry for entry in self.topics if _NAME.fullmatch(entry))
        return names, tuple(re.compile(entry) for entry in self.topics if entry not in names)

    def of_interest(self, topic: str) -> bool:
        """Say whether the group reads this topic; own and internal topics only by their name."""
        names, patterns = self._matchers
        if topic in names:
            return True
        if topic.startswith("__") or topic in self.own_topics:
            return False
        return any(pattern.fullmatch(topic) for pattern in patterns)

    @property
    def topic_names(self) -> tuple[str, ...] | None:
        """The topics where all are given by name, None where one is a regular expression."""
        names, patterns = self._matchers
        return None if patterns else tuple(sorted(names))

    @property
    def own_topics(self) -> frozenset[str]:
        """The topics that lagless itself makes for this group."""
        return frozenset(
            {
                self.monitor.topic,
                self.controller.metadata_topic,
                self.state_topic,
                self.event_topic,
                self.leader_topic,
            }
        )

    @property
    def state_topic(self) -> str:
        """The compacted topic of what controller and consumers persist."""
        return f"{self.group}.state"

    @property
    def event_topic(self) -> str:
        """The topic of the controller's decisions."""
        return f"{self.group}.events"

    @property
    def leader_topic(self) -> str:
        """The topic of one partition whose holder, in the group of the same name, acts."""
        return f"{self.group}.controller"

    @property
    def max_rate(self) -> float:
        """C̄: what a consumer can read, in bytes/s."""
        return self.consumer.max_rate or self.consumer.calibrated_rate

    @property
    def capacity(self) -> float:
        """C: what a consumer may be given, in bytes/s."""
        return model.capacity(self.max_rate, self.controller.iteration, self.controller.rebalance)

    def of_topic(self, name: str) -> TopicSettings:
        """Give the settings of a topic, or the defaults."""
        return self.topic.get(name, TopicSettings())

    def table_of(self, topic: str) -> str:
        """Give the name of the table that a topic lands in."""
        return self.of_topic(topic).table or topic
