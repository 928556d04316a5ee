"""The settings of the three roles, and of members that lagless did not write."""

from typing import Literal, Self

from pydantic import Field, model_validator

from lagless.settings import targets
from lagless.settings.branch import Branch, MetricsPort
from lagless.settings.units import Pause, Rate, Seconds, Size, Time


class MonitorSettings(Branch):
    """How write speeds are measured."""

    interval: Seconds = 5
    """Maximum seconds between two measurements."""
    shortest_interval: Seconds = 1
    """Minimum seconds between two measurements, used while brokers answer within a twentieth of it.
    Set it to `interval` to measure at a fixed pace."""
    window: Seconds = 30
    """Seconds over which a speed is averaged while it does not change. A shorter window is
    noisier."""
    detect_changes: bool = True
    """Start a new window when a partition's speed changes by more than its noise. If false, speeds
    are the paper's: averages over the whole window."""
    topic: str = "monitor.writeSpeed"
    """Topic that speeds are published to."""
    metrics_port: MetricsPort = None

    @model_validator(mode="after")
    def _room(self) -> Self:
        self._check(self.window >= self.interval, "window", "at least", "interval", " s")
        return self


class ControllerSettings(Branch):
    """When and how partitions are packed."""

    delay: Time | None = None
    """Target for the time from produced to readable, for 99 % of the bytes, such as `"10 s"`.
    `slack`, `pause`, `catch_up` and `shrink_after` follow from it where they are not set; their
    defaults correspond to 20 s."""
    algorithm: str = "sticky"
    """Packing algorithm, with its parameters: `mwf`, `sticky:slack=0.1`."""
    slack: float = Field(0.05, ge=0)
    """Extra consumers allowed beyond Best Fit Decreasing's count, as a fraction. More slack means
    fewer moves."""
    iteration: Seconds = 30
    """Seconds between routine reassignments."""
    rebalance: Pause = 5
    """Seconds for which a partition is not read while it moves. Capacity is C = max rate · (1 −
    rebalance / iteration)."""
    pause: Pause = 10
    """Minimum seconds between non-urgent reassignments."""
    dead_band: float = Field(0.08, ge=0, lt=1)
    """A consumer may be this much fuller than C, as a fraction of it, before partitions move away
    from it. Speeds that fluctuate less move nothing."""
    shrink_after: Pause = 30
    """Seconds for which fewer consumers must have been enough before one is removed. 0 removes it
    at the next reassignment."""
    max_move: float = Field(0.5, gt=0, le=1)
    """Fraction of all bytes/s that may move in one reassignment while no consumer is overloaded;
    one consumer's partitions may always move. 1 sets no limit."""
    catch_up: Pause = 60
    """Target time to work off a backlog, in seconds; backlog divided by it is added to a
    partition's weight. 0 ignores backlogs."""
    min_consumers: int = Field(1, ge=0)
    """Minimum number of consumers. With 0 a group without traffic stops its last consumer once
    everything is read, and starts one again when something is written."""
    max_consumers: int = Field(1000, ge=1)
    """Maximum number of consumers. If more are needed, the load is spread evenly over this many."""
    spares: int = Field(0, ge=0)
    """Consumers kept ready without work, beyond `min_consumers` and `max_consumers`. A spare takes
    partitions within seconds, and another one is started in its place."""
    stale_after: Seconds = 60
    """Do not scale down while speeds are older than this many seconds."""
    metadata_topic: str = "consumer.metadata"
    """Topic for orders and receipts: partition 0 for the controller, partition N for consumer N."""
    metrics_port: MetricsPort = None

    @model_validator(mode="after")
    def _follow(self) -> Self:
        """Let what was not set by hand follow from the delay."""
        if self.delay is not None:
            for name, value in targets.knobs(self.delay).items():
                if name not in self.model_fields_set:
                    self.__dict__[name] = value
        return self

    @model_validator(mode="after")
    def _sane(self) -> Self:
        self._check(self.rebalance < self.iteration, "rebalance", "less than", "iteration", " s")
        enough = self.max_consumers >= self.min_consumers
        self._check(enough, "max_consumers", "at least", "min_consumers")
        return self


class ConsumerSettings(Branch):
    """How a consumer reads, and when the controller considers it lost."""

    max_rate: Rate | None = None
    """Quota: a consumer reads at most this many bytes/s; none by default."""
    calibrated_rate: Rate = 10e6
    """Bytes/s that a consumer can read, as measured by `lagless calibrate`."""
    batch_bytes: Size = 5_000_000
    """Bytes to wait for before a cycle reads; 5 MB as in the paper."""
    wait_seconds: Seconds = 1
    """Maximum seconds after a cycle until the next one reads, even if fewer bytes are waiting."""
    shortest_wait: Seconds = 0.1
    """Minimum seconds between two cycles that read less than `batch_bytes`. In between, a consumer
    waits as long as its cycles take. Set it to `wait_seconds` for larger files and fewer cycles."""
    max_batch_bytes: Size = 50_000_000
    """Maximum bytes that a cycle reads when there is a backlog."""
    heartbeat: Seconds = 2
    """Seconds between heartbeats."""
    lost_after: Seconds = 20
    """Seconds without a heartbeat after which a consumer is considered lost."""
    start_deadline: Seconds = 120
    """Seconds for a new consumer to get ready."""
    order_deadline: Seconds = 30
    """Seconds for a consumer to confirm an order."""
    cycle_deadline: Seconds = 60
    """Seconds for a cycle to finish."""
    start: Literal["earliest", "latest"] = "earliest"
    """Where to start in a topic that the group has never read."""
    on_data_loss: Literal["fail", "continue"] = "fail"
    """What to do when Kafka deleted records before they were read: stop, or skip them and record
    the range in `<table>_gone`."""
    metrics_port: MetricsPort = None

    @model_validator(mode="after")
    def _sane(self) -> Self:
        large = self.max_batch_bytes >= self.batch_bytes
        self._check(large, "max_batch_bytes", "at least", "batch_bytes")
        self._check(self.lost_after > self.heartbeat, "lost_after", "more than", "heartbeat", " s")
        return self


class MembersSettings(Branch):
    """Who reads the topics: lagless's own consumers, or the members of any consumer group."""

    kind: Literal["lagless", "group"] = "lagless"
    """lagless: its own consumers, which write to the lake. group: the members of the consumer group
    `group`, in any language; the assignor must be installed on the brokers or in the members."""
    rate: Rate | None = None
    """group: bytes/s that one member can read. By default it is learned from members that have a
    backlog; until then the group does not scale down."""
    look: Seconds = 2
    """group: seconds between two queries of the members' partitions and the committed offsets."""
    follow_deadline: Seconds = 30
    """group: seconds after which lagless warns that the members do not follow the plan; it keeps
    trying."""
