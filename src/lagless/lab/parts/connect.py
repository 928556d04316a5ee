"""A Spark Connect server, with Kafka's connector and Delta on it.

The server runs on this machine. Its executors are threads of it, or processes of a cluster.
"""

import json
import shutil
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from lagless import extras
from lagless.adapters.spark import jars, sessions, tuning
from lagless.errors import GiveUp, WrongInput
from lagless.lab.parts import children, masters

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
OPTIONS = "spark.driver.extraJavaOptions"
TOKEN = "spark.connect.authenticate.token"
EXECUTORS = 240.0
"""Seconds until executors must have run the server's first jobs; pods may pull an image first."""


class ConnectServer(children.Server):
    """A server that runs between entering and leaving, and no longer than this process.

    Entering it also warms it up: the first cycle of a JVM takes many seconds. With the address of
    a broker, reading from Kafka is warmed up too.
    """

    title = "Connect server"
    deadline = 180.0

    def __init__(
        self,
        folder: Path | str | None = None,
        port: int | None = None,
        conf: Mapping[str, str] | None = None,
        *,
        host: str = sessions.HOST,
        master: str = "local[2]",
        memory: str = "2g",
        bootstrap: str | None = None,
        warm: bool = True,
        driver_host: str | None = None,
        driver_port: int | None = None,
    ) -> None:
        super().__init__(folder, port, "connect.log")
        # The JVM's temporary files: a server that is killed leaves them.
        self._scratch = self.folder / "tmp"
        self._host = host
        self._conf = dict(conf or {})
        self._master = masters.check(master)
        self._driver = (driver_host, driver_port)
        self._memory = memory
        self._bootstrap = bootstrap
        self._warm = warm

    @property
    def url(self) -> str:
        """The address that sessions are opened on."""
        if self._port is None:
            raise WrongInput("this Connect server has no address yet: start it first")
        # Without TLS, clients send a token to this name only.
        host = "localhost" if TOKEN in self._conf else sessions.HOST
        return f"sc://{host}:{self._port}"

    def _with_token(self) -> str:
        token = self._conf.get(TOKEN)
        return self.url if token is None else f"{self.url}/;token={token}"

    def _launch(self) -> None:
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir()
        self._port = port = self._port or children.free_tcp_ports()[0]
        parts = jars.spark_jars()
        conf = {
            **tuning.at_start(self.folder, parts),
            **(tuning.on_this_machine(parts) if masters.is_local(self._master) else {}),
            **masters.on_executors(self._master, self._conf),
            **masters.scheduling(self.folder),
            **masters.driver(self._master, *self._driver),
            "spark.driver.memory": self._memory,
            "spark.connect.grpc.binding.address": self._host,
            "spark.connect.grpc.binding.port": str(port),
            # A consumer may be quiet for hours, and must find its session again.
            "spark.connect.session.manager.defaultSessionTimeout": "24h",
            **self._conf,
            OPTIONS: f'"-Dderby.system.home={self.folder}" "-Djava.io.tmpdir={self._scratch}" '
            + self._conf.get(OPTIONS, ""),
        }
        command = jars.spark_command(
            "org.apache.spark.deploy.SparkSubmit",
            *("--class", SERVER, "--master", self._master),
            *(part for key, value in conf.items() for part in ("--conf", f"{key}={value}")),
            "spark-internal",
        )
        environment = jars.spark_environment()
        if not sessions.is_here(self._master):
            del environment["SPARK_LOCAL_IP"]
        if "spark.pyspark.python" in self._conf:
            # The server asks the environment, not the conf, for its workers' interpreter.
            environment["PYSPARK_PYTHON"] = self._conf["spark.pyspark.python"]
        self._processes = [children.start(command, self.log, env=environment, cwd=self.folder)]
        self._await("the Spark Connect server", lambda: children.answers(port))
        # The port opens before the server can serve: a session that answers is the proof.
        sessions.session(self._with_token()).stop()

    def warm_up(self, bootstrap: str | None = None) -> None:
        """Run a consumer's work once on made-up records; GiveUp if no executor takes it."""
        # Executors elsewhere have no part of this machine's files.
        folder = self.folder / "rehearsal" if masters.is_local(self._master) else None
        spark = sessions.session(self._with_token())
        failure: list[BaseException] = []

        def rehearse() -> None:
            try:
                _rehearse(spark, folder, bootstrap or self._bootstrap)
            except BaseException as error:
                failure.append(error)

        working = threading.Thread(target=rehearse, name="rehearsal", daemon=True)
        working.start()
        working.join(EXECUTORS)
        if working.is_alive():
            raise GiveUp(
                f"no executor of {self._master} finished the server's first jobs within "
                f"{EXECUTORS:g} s: see {self.log}, and whether executors reach the driver at "
                f"{masters.driver(self._master, *self._driver)['spark.driver.host']}"
            )
        spark.stop()
        if failure:
            raise failure[0]

    def stop(self) -> None:
        """Stop the server; a stopped one may be started again."""
        super().stop()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def __enter__(self) -> Self:
        super().__enter__()
        if self._warm:
            try:
                self.warm_up()
            except BaseException:
                self.kill()
                raise
        return self


def _rehearse(spark: "SparkSession", folder: Path | None, bootstrap: str | None) -> None:
    """Read, parse and write as a cycle does, so that the JVM has compiled the code.

    Without a folder that every executor sees, what would be written is only computed.
    """
    from pyspark.sql import functions as F  # noqa: N812  (Spark's own habit)

    texts = [json.dumps({"seq": number, "pad": "x" * 100}) for number in range(1000)]
    frames = [spark.createDataFrame([(text,) for text in texts], "value string")]
    with ExitStack() as made:
        if folder is not None:
            made.callback(shutil.rmtree, folder, ignore_errors=True)
        if bootstrap is not None:
            topic = made.enter_context(_topic_with(bootstrap, texts))
            options = {
                "kafka.bootstrap.servers": bootstrap,
                "assign": json.dumps({topic: [0]}),
                "startingOffsets": json.dumps({topic: {"0": 0}}),
                "endingOffsets": json.dumps({topic: {"0": len(texts)}}),
            }
            frames.append(spark.read.format("kafka").options(**options).load())
        for number, frame in enumerate(frames):
            for again in range(2):
                parsed = frame.select(
                    F.from_json(F.col("value").cast("string"), "seq bigint, pad string").alias("r")
                ).select("r.*")
                writer = parsed.coalesce(1).write.mode("overwrite")
                if folder is None:
                    writer.format("noop").save()
                else:
                    writer.parquet(str(folder / f"{number}-{again}"))
        if folder is not None:
            spark.read.parquet(str(folder / "0-0")).count()


@contextmanager
def _topic_with(bootstrap: str, texts: list[str]) -> Iterator[str]:
    """Make a topic that holds the texts, and delete it at the end of the block."""
    with extras.needed("kafka"):
        from confluent_kafka import Producer
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic
    topic = f"lagless.rehearsal-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 4})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    try:
        producer = Producer({"bootstrap.servers": bootstrap})
        for text in texts:
            producer.produce(topic, text)
        if producer.flush(60):
            raise GiveUp(f"the broker at {bootstrap} does not take records: see its log")
        yield topic
    finally:
        admin.delete_topics([topic])[topic].result(30)
