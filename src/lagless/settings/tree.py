"""The tree of settings: each field with its unit, its default and what it is for."""

import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from lagless import model
from lagless.settings.branch import Branch, like, listed
from lagless.settings.dashboard_settings import DashboardSettings
from lagless.settings.data import (
    CompactionSettings,
    KafkaSettings,
    LakeSettings,
    SparkSettings,
    TopicSettings,
)
from lagless.settings.registry_access import RegistrySettings
from lagless.settings.roles import (
    ConsumerSettings,
    ControllerSettings,
    MembersSettings,
    MonitorSettings,
)
from lagless.settings.units import Seconds

OWN_KINDS = ("processes", "kubernetes")
"""The kinds of provisioner that start lagless's own consumers."""
WORKLOADS = ("deployment", "statefulset")
"""The kinds of provisioner that scale the workload of members that lagless did not write."""
_NAME = re.compile(r"[A-Za-z0-9._-]+")


class ProvisionerSettings(Branch):
    """How consumers are started and stopped."""

    kind: Literal["processes", "kubernetes", "deployment", "statefulset", "keda", "none"] = (
        "processes"
    )
    """processes: a process per consumer, on this machine. kubernetes: a Deployment per consumer.
    The others are for `members.kind = "group"`. deployment, statefulset: scale the workload that
    your members run in. keda: KEDA scales it and asks `lagless scaler`. none, the default with
    `members.kind = "group"`: place partitions, and leave it to you how many members run."""
    workload: str | None = None
    """deployment, statefulset: name of your Deployment or StatefulSet; one member per pod. keda:
    name of your Deployment, if its pods without work should be marked as the first to go."""
    scale_to_zero: bool = False
    """deployment, keda: remove the last pod too when there is nothing to read."""
    directory: Path | None = None
    """processes: folder for pid files and logs; `<group>.consumers` next to the lake by default, or
    in the current folder if the lake is in a bucket."""
    restarts: int = Field(5, ge=0)
    """processes: crashes of one consumer allowed within `restart_window`."""
    restart_window: Seconds = 300
    """processes: seconds over which crashes are counted."""
    namespace: str | None = None
    """kubernetes, deployment, statefulset, keda: namespace of the consumers; the controller's by
    default."""
    image: str | None = None
    """kubernetes: container image of the consumers."""
    template: Path | None = None
    """kubernetes: YAML file that is merged into each consumer's Deployment."""
    kubeconfig: Path | None = None
    """kubernetes, deployment, statefulset, keda: kubeconfig file; the pod's service account by
    default."""
    owner: str | None = None
    """kubernetes: Deployment whose deletion also deletes the consumers."""
    config_map: str | None = None
    """kubernetes: ConfigMap that holds lagless.toml for the consumers."""

    @model_validator(mode="after")
    def _workload(self) -> Self:
        if self.kind in WORKLOADS and not self.workload:
            raise ValueError(
                f"provisioner.workload is missing; with provisioner.kind = {self.kind!r} it should "
                "be the name of the workload that your members run in"
            )
        if self.kind not in (*WORKLOADS, "keda") and self.workload:
            raise ValueError(
                f"provisioner.workload is {self.workload!r}, which nothing scales with "
                f'provisioner.kind = {self.kind!r}; it should be "deployment", "statefulset" or '
                '"keda"'
            )
        if self.scale_to_zero and self.kind not in ("deployment", "keda"):
            raise ValueError(
                f"provisioner.scale_to_zero is for provisioner.kind = 'deployment' or 'keda', not "
                f"{self.kind!r}: only members without an order may all go"
            )
        return self


class Settings(Branch):
    """Everything that can be set."""

    group: Annotated[
        str, like(r"[A-Za-z0-9._-]{1,200}", 'letters, digits, ".", "_" and "-", at most 200')
    ]
    """Consumer group to commit offsets to; also the prefix of lagless's own topics."""
    topics: Annotated[tuple[str, ...], BeforeValidator(listed)] = Field(min_length=1)
    """Topics to read: names, or regular expressions that match the whole name."""
    kafka: KafkaSettings = KafkaSettings()
    monitor: MonitorSettings = MonitorSettings()
    controller: ControllerSettings = ControllerSettings()
    consumer: ConsumerSettings = ConsumerSettings()
    members: MembersSettings = MembersSettings()
    topic: Mapping[str, TopicSettings] = {}
    """Settings per topic."""
    registry: RegistrySettings = RegistrySettings()
    spark: SparkSettings = SparkSettings()
    lake: LakeSettings
    compaction: CompactionSettings = CompactionSettings()
    provisioner: ProvisionerSettings = ProvisionerSettings()
    dashboard: DashboardSettings = DashboardSettings()

    @model_validator(mode="before")
    @classmethod
    def _of_others(cls, value: Any) -> Any:
        """Ask for no lake where members of another kind read, and start none of them."""
        members = value.get("members") if isinstance(value, Mapping) else None
        if isinstance(members, Mapping) and members.get("kind") == "group":
            starts = value.get("provisioner", {})
            if isinstance(starts, Mapping):
                starts = {"kind": "none", **starts}
            return {"lake": {"path": "."}, **value, "provisioner": starts}
        return value

    @model_validator(mode="after")
    def _who_starts(self) -> Self:
        """Refuse a provisioner that belongs to the other kind of members."""
        kind = self.provisioner.kind
        if self.of_others and kind in OWN_KINDS:
            raise ValueError(
                f"provisioner.kind is {kind!r}, which starts lagless's own consumers; with "
                'members.kind = "group" it should be "none", "deployment", "statefulset" or '
                '"keda"'
            )
        if not self.of_others and kind not in OWN_KINDS:
            raise ValueError(
                f"provisioner.kind is {kind!r}, which is for members that lagless did not write; "
                'it should be "processes" or "kubernetes", unless members.kind is "group"'
            )
        return self

    @model_validator(mode="after")
    def _where_compaction_runs(self) -> Self:
        """Refuse to compact from where there may be no way to the lake."""
        if self.compaction.watch and self.provisioner.kind != "processes":
            raise ValueError(
                "compaction.watch is true, which starts a process beside the controller, and "
                f"provisioner.kind is {self.provisioner.kind!r}; run `lagless compact --watch` "
                "where the lake can be reached instead, for example as a Deployment of its own"
            )
        return self

    @model_validator(mode="after")
    def _where_schemas_are(self) -> Self:
        """Refuse a format that needs a registry where none is named."""
        for name, topic in self.topic.items():
            formats = {"format": topic.format, "key_format": topic.key_format}
            asking = [key for key, kind in formats.items() if kind == "avro"]
            if asking and self.registry.url is None:
                raise ValueError(
                    f"topic.{name}.{asking[0]} is 'avro', which needs a schema registry: set "
                    "registry.url"
                )
        return self

    @field_validator("topics")
    @classmethod
    def _patterns(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for entry in value:
            try:
                re.compile(entry)
            except (re.error, OverflowError, RecursionError) as error:
                raise ValueError(f"{entry!r} is not a regular expression: {error}") from error
        return value

    @cached_property
    def _matchers(self) -> tuple[frozenset[str], tuple[re.Pattern[str], ...]]:
        names = frozenset(entry for entry in self.topics if _NAME.fullmatch(entry))
        return names, tuple(re.compile(entry) for entry in self.topics if entry not in names)

    def of_interest(self, topic: str) -> bool:
        """Return whether the group reads this topic; patterns skip own and internal topics."""
        names, patterns = self._matchers
        if topic in names:
            return True
        if topic.startswith("__") or topic in self.own_topics:
            return False
        return any(pattern.fullmatch(topic) for pattern in patterns)

    @property
    def topic_names(self) -> tuple[str, ...] | None:
        """The topics if all are given by name, None if any is a regular expression."""
        names, patterns = self._matchers
        return None if patterns else tuple(sorted(names))

    @property
    def own_topics(self) -> frozenset[str]:
        """The topics that lagless creates for this group."""
        of_roles = (self.monitor.topic, self.controller.metadata_topic)
        own = {*of_roles, self.state_topic, self.event_topic, self.leader_topic}
        return frozenset(own | {self.plan_topic, *self.nudge_topics} if self.of_others else own)

    @property
    def of_others(self) -> bool:
        """Whether the members of the group are consumers that lagless did not write."""
        return self.members.kind == "group"

    @property
    def plan_topic(self) -> str:
        """The compacted topic that holds the plan for members that lagless did not write."""
        return f"{self.group}.plan"

    @property
    def nudge_topics(self) -> tuple[str, str]:
        """The two topics between which the member switches that makes Kafka assign again."""
        return f"{self.group}.nudge-a", f"{self.group}.nudge-b"

    @property
    def state_topic(self) -> str:
        """The compacted topic that holds the state of the controller and the consumers."""
        return f"{self.group}.state"

    @property
    def event_topic(self) -> str:
        """The topic of the controller's decisions."""
        return f"{self.group}.events"

    @property
    def leader_topic(self) -> str:
        """The topic with one partition; the controller that holds it is the leader."""
        return f"{self.group}.controller"

    @property
    def max_rate(self) -> float:
        """C̄: what a consumer can read, in bytes/s."""
        if self.of_others and self.members.rate is not None:
            return self.members.rate
        return self.consumer.max_rate or self.consumer.calibrated_rate

    @property
    def capacity(self) -> float:
        """C: what a consumer may be given, in bytes/s."""
        return model.capacity(self.max_rate, self.controller.iteration, self.controller.rebalance)

    def of_topic(self, name: str) -> TopicSettings:
        """Return the settings of a topic, or the defaults."""
        return self.topic.get(name, TopicSettings())

    def table_of(self, topic: str) -> str:
        """Return the name of the table that a topic is written to."""
        return self.of_topic(topic).table or topic
