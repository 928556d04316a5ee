"""Measure the monitor on a broker of its own.

python -m benchmarks.monitor scale [--partitions 10000]     seconds a round, memory, message size
python -m benchmarks.monitor accuracy [--seconds 130]       published speeds against the disk's
"""

import argparse
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from lagless.adapters.kafka.log_sizes import LogSizes
from lagless.lab.parts.broker import Broker
from lagless.monitor.service import Monitor
from lagless.monitor.window import Window
from lagless.settings import parse
from lagless.wiring.clock import RealClock
from tests.monitor import appended

PER_TOPIC = 100


def scale(partitions: int, rounds: int) -> None:
    """Let `lagless monitor` measure many partitions that are all written to."""
    with Broker(heap="2g") as broker, tempfile.TemporaryDirectory() as folder:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        names = [f"scale-{n}" for n in range(partitions // PER_TOPIC)]
        for name in names:
            admin.create_topics([NewTopic(name, PER_TOPIC, 1)])[name].result(60)
        stop = threading.Event()
        writer = threading.Thread(target=trickle, args=(broker.bootstrap, names, stop))
        writer.start()
        config = Path(folder) / "lagless.toml"
        config.write_text(
            f'group = "scale"\ntopics = ["scale-.*"]\n[lake]\npath = "{folder}"\n'
            f'[kafka]\nbootstrap = "{broker.bootstrap}"\n[monitor]\nmetrics_port = 0\n'
        )
        process = subprocess.Popen(
            [sys.executable, "-m", "lagless", "monitor", "--config", str(config), "--json"],
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stderr is not None
            port = int(re.findall(r"port (\d+)", process.stderr.readline())[0])
            told: set[float] = set()
            published = 0.0
            while published < rounds:
                time.sleep(1)
                page = metrics(port)
                published = page["lagless_monitor_published_total"]
                if published > 2:  # the first rounds learn the partitions
                    told.add(page["lagless_monitor_round_seconds"])
            memory = re.findall(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
            used = sum(map(int, Path(f"/proc/{process.pid}/stat").read_text().split()[13:15]))
            work = used / os.sysconf("SC_CLK_TCK") / page["lagless_monitor_rounds_total"]
            log = broker.data_dir / "data" / "monitor.writeSpeed-0" / f"{0:020}.log"
            before = log.stat().st_size
            while (after := log.stat().st_size) == before:
                time.sleep(0.1)
            began = time.monotonic()
            process.send_signal(signal.SIGTERM)
            process.wait()
            ended = time.monotonic() - began
        finally:
            process.kill()
            stop.set()
            writer.join()
        print(f"partitions        {page['partitions']:.0f}")
        print(f"seconds a round   {sorted(told)[len(told) // 2]:.2f} (worst {max(told):.2f})")
        print(f"work              {work:.2f} s of processor a round, start included")
        print(f"memory            {int(memory[0]) / 1024:.0f} MB at most")
        print(f"message           {(after - before) / 1000:.0f} kB compressed")
        print(f"end after SIGTERM {ended:.2f} s")


def trickle(bootstrap: str, names: list[str], stop: threading.Event) -> None:
    """Write a little of random size to every partition, again and again."""
    producer = Producer({"bootstrap.servers": bootstrap, "queue.buffering.max.messages": 10**6})
    draw = random.Random(0)
    while not stop.is_set():
        for name in names:
            try:
                for partition in range(PER_TOPIC):
                    producer.produce(name, os.urandom(draw.randrange(10, 500)), partition=partition)
            except (KafkaException, BufferError):
                pass  # the broker is still making it, or is busy
            producer.poll(0)
            stop.wait(0.05)
    producer.flush(30)


def metrics(port: int) -> dict[str, float]:
    """Read the monitor's own metrics, and count its partitions."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as response:
        text = response.read().decode()
    found = {name: float(value) for name, value in re.findall(r"^(\w+) ([\d.e+-]+)$", text, re.M)}
    return found | {"partitions": text.count("lagless_write_speed_bytes_per_second{")}


def accuracy(seconds: float, interval: float, window: float) -> None:
    """Compare published speeds with the bytes on disk, while retention deletes segments."""
    middle = 0.4 * seconds
    shapes = {
        "steady": appended.steady(1e6),
        "step": appended.step(3e5, 1.5e6, middle),
        "spike": appended.spike(2e5, 2e6, middle, middle + 2 * interval),
    }
    loads = {
        f"{shape}-{codec}-{retention}": (shape, codec, retention)
        for shape in shapes
        for codec in ("none", "lz4")
        for retention in (3_000_000, 20_000_000)
    }
    eager = {"log.retention.check.interval.ms": "1000", "log.initial.task.delay.ms": "1000"}
    with Broker(settings=eager) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for name, (_, _, retention) in loads.items():
            config = {
                **appended.KEEP_DELETED,
                "retention.bytes": str(retention),
                "segment.bytes": str(max(1 << 20, retention // 4)),
            }
            admin.create_topics([NewTopic(name, 1, 1, config=config)])[name].result(30)
        settings = parse(
            {
                "group": "g",
                "topics": [".*"],
                "lake": {"path": "lake"},
                "kafka": {"bootstrap": broker.bootstrap},
            }
        )
        kept, ending = appended.Kept(), threading.Event()
        sizes = LogSizes(settings)
        monitor = Monitor("g", interval, Window(window), sizes, kept, RealClock(ending))
        truths = {name: appended.Truth(broker.data_dir / "data" / f"{name}-0") for name in loads}
        rates = {name: shapes[load[0]] for name, load in loads.items()}
        codecs = {name: load[1] for name, load in loads.items()}
        load = appended.Load(broker.bootstrap, rates, codecs)
        began = appended.watch(monitor, ending, truths.values(), load, seconds)
        sizes.close()
        for name, truth in truths.items():
            errors = [
                m.speeds[name][0] / truth.speed(m.at, window) - 1
                for m in kept.messages
                if m.at > began + window + 2 * interval
            ]
            gone = sum(1 for _ in (broker.data_dir / "data" / f"{name}-0").glob("*.log.deleted"))
            worst, mean = max(map(abs, errors)), sum(errors) / len(errors)
            print(
                f"{name:22s} worst {worst:6.2%}  mean {mean:+.2%}  of {len(errors)}; "
                f"{truth.sizes[-1] / 1e6:.0f} MB, {gone} segments deleted"
            )


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["scale", "accuracy"])
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=130)
    parser.add_argument("--interval", type=float, default=5)
    parser.add_argument("--window", type=float, default=30)
    asked = parser.parse_args()
    if asked.what == "scale":
        scale(asked.partitions, asked.rounds)
    else:
        accuracy(asked.seconds, asked.interval, asked.window)


if __name__ == "__main__":
    main()
