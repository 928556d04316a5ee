"""A Spark Connect server on this machine, with Kafka's connector and Delta on it."""

import json
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from lagless import extras
from lagless.embedded import distribution, jars, lifetimes, ports, sessions, tuning
from lagless.errors import GiveUp, WrongInput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


class ConnectServer:
    """A server that runs between entering and leaving, and no longer than this process.

    Entering it also warms it up: the first cycle of a JVM takes many seconds. With the address of
    a broker, reading from Kafka is warmed up too. Its files are in `folder`, or a temporary one.
    """

    def __init__(
        self,
        folder: Path | str | None = None,
        port: int | None = None,
        conf: Mapping[str, str] | None = None,
        *,
        host: str = ports.HOST,
        master: str = "local[2]",
        memory: str = "2g",
        bootstrap: str | None = None,
        warm: bool = True,
        deadline: float = 180.0,
    ) -> None:
        self._temporary = folder is None
        self.folder = Path(
            tempfile.mkdtemp(prefix="lagless-connect-") if folder is None else folder
        ).absolute()
        self.log = self.folder / "connect.log"
        self._port = port
        self._host = host
        self._conf = dict(conf or {})
        self._master = master
        self._memory = memory
        self._bootstrap = bootstrap
        self._warm = warm
        self._deadline = deadline
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address that sessions are opened on."""
        if self._port is None:
            raise WrongInput("this Connect server has no address yet: start it first")
        return f"sc://{ports.HOST}:{self._port}"

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._running().pid

    @property
    def _is_local(self) -> bool:
        return self._master.startswith("local")

    @property
    def _scratch(self) -> Path:
        """Where the JVM has its temporary files: a server that is killed leaves them."""
        return self.folder / "tmp"

    def _sweep(self) -> None:
        shutil.rmtree(self._scratch, ignore_errors=True)

    def start(self) -> Self:
        """Start the server and return when it answers; started again, it keeps its port."""
        if self._process is not None:
            raise WrongInput("this Connect server runs already: stop it before starting it again")
        if self._port is not None and not ports.is_free(self._port):
            raise GiveUp(f"port {self._port} is in use on this machine: choose another one")
        self._sweep()
        self._scratch.mkdir(parents=True, exist_ok=True)
        self._port = self._port or ports.free()[0]
        parts = jars.spark_jars()
        conf = {
            **tuning.at_start(self.folder, parts),
            "spark.driver.extraJavaOptions": f'"-Dderby.system.home={self.folder}" '
            f'"-Djava.io.tmpdir={self._scratch}"',
            **(tuning.on_this_machine(parts) if self._is_local else {}),
            "spark.driver.memory": self._memory,
            "spark.driver.host": ports.HOST,
            "spark.driver.bindAddress": ports.HOST,
            "spark.connect.grpc.binding.address": self._host,
            "spark.connect.grpc.binding.port": str(self._port),
            # A consumer may be quiet for hours, and must find its session again.
            "spark.connect.session.manager.defaultSessionTimeout": "24h",
            **self._conf,
        }
        command = distribution.command(
            "org.apache.spark.deploy.SparkSubmit",
            *("--class", SERVER, "--master", self._master),
            *(part for key, value in conf.items() for part in ("--conf", f"{key}={value}")),
            "spark-internal",
        )
        self._process = lifetimes.bear(
            command, self.log, env=distribution.environment(), cwd=self.folder
        )
        try:
            self._await_answer()
        except BaseException:
            self.kill()
            raise
        return self

    def warm_up(self, bootstrap: str | None = None) -> float:
        """Run a consumer's work once on made-up records, and return the seconds it took."""
        began = time.monotonic()
        spark = sessions.session(self.url)
        try:
            _rehearse(spark, self.folder / "rehearsal", bootstrap or self._bootstrap)
        finally:
            spark.stop()
        return time.monotonic() - began

    def stop(self) -> None:
        """Stop the server; a stopped one may be started again."""
        process, self._process = self._process, None
        if process is not None:
            lifetimes.end(process)
            self._sweep()

    def wait(self) -> int:
        """Wait until the server ends by itself, and return its exit status."""
        return self._running().wait()

    def kill(self) -> None:
        """End the server at once, as a crash would."""
        if self._process is not None:
            self._process.kill()
        self.stop()

    def __enter__(self) -> Self:
        if self._process is None:
            self.start()
        if self._warm:
            try:
                self.warm_up()
            except BaseException:
                self.kill()
                raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        if self._temporary:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            raise WrongInput("this Connect server does not run: start it first")
        return self._process

    def _await_answer(self) -> None:
        port = self._port
        assert port is not None
        lifetimes.await_ready(
            "the Spark Connect server",
            [self._running()],
            lambda: ports.answers(port),
            self._deadline,
            self.log,
        )
        # The port opens before the server can serve: a session that answers is the proof.
        sessions.session(self.url).stop()


def _rehearse(spark: "SparkSession", folder: Path, bootstrap: str | None) -> None:
    """Read, parse and write as a cycle does, so that the JVM has met the code."""
    from pyspark.sql import functions as F  # noqa: N812  (Spark's own habit)

    texts = [json.dumps({"seq": number, "pad": "x" * 100}) for number in range(1000)]
    frames = [spark.createDataFrame([(text,) for text in texts], "value string")]
    topic = None
    try:
        if bootstrap is not None:
            topic = _topic_with(bootstrap, texts)
            frames.append(_read(spark, bootstrap, topic, len(texts)))
        for number, frame in enumerate(frames):
            for again in range(2):
                parsed = frame.select(
                    F.from_json(F.col("value").cast("string"), "seq bigint, pad string").alias("r")
                ).select("r.*")
                target = folder / f"{number}-{again}"
                parsed.coalesce(1).write.mode("overwrite").parquet(str(target))
        spark.read.parquet(str(folder / "0-0")).count()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if topic is not None and bootstrap is not None:
            _delete(bootstrap, topic)


def _read(spark: "SparkSession", bootstrap: str, topic: str, count: int) -> "DataFrame":
    return (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("assign", json.dumps({topic: [0]}))
        .option("startingOffsets", json.dumps({topic: {"0": 0}}))
        .option("endingOffsets", json.dumps({topic: {"0": count}}))
        .load()
    )


def _topic_with(bootstrap: str, texts: list[str]) -> str:
    with extras.needed("kafka"):
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic
    topic = f"lagless.rehearsal-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 4})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": bootstrap})
    for text in texts:
        producer.produce(topic, text)
    if producer.flush(60):
        raise GiveUp(f"the broker at {bootstrap} does not take records: see its log")
    return topic


def _delete(bootstrap: str, topic: str) -> None:
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 4})
    admin.delete_topics([topic])[topic].result(30)
