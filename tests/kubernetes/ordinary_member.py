"""An ordinary consumer of a Kafka group, as its users write it: it knows nothing of lagless.

It appends what it processed to a file of its own, then commits its offsets. Tests run it in pods.
"""

import os
import signal
import sys
import threading
from pathlib import Path

from confluent_kafka import Consumer, KafkaException


def main() -> None:
    """Process records until SIGTERM."""
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    pod, topic = os.environ["POD"], os.environ["TOPIC"]
    config = {
        "bootstrap.servers": os.environ["BOOTSTRAP"],
        "group.id": os.environ["GROUP"],
        "client.id": pod,
        "group.protocol": "consumer",
        "group.remote.assignor": "lagless",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    if os.environ.get("STATIC"):
        config["group.instance.id"] = pod
    consumer = Consumer(config)
    consumer.subscribe([topic])
    with (Path(os.environ["FOLDER"]) / pod).open("a") as file:
        while not ending.is_set():
            messages = [it for it in consumer.consume(500, 0.2) if it.error() is None]
            if not messages:
                continue
            file.writelines(f"{it.partition()} {it.offset()}\n" for it in messages)
            file.flush()
            try:
                consumer.commit(asynchronous=False)
            except KafkaException as error:
                print(f"these records will come again: {error}", file=sys.stderr, flush=True)
    consumer.close()


if __name__ == "__main__":
    main()
