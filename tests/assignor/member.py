"""A member of a group: confluent-kafka as it is, in a process of its own.

    python -m tests.assignor.member '{"bootstrap.servers": …}' TOPIC…

It prints its assignment as a JSON object, {topic: [partitions]}, whenever that has changed, and
subscribes to the topics of each line that it reads. It leaves the group when its input ends, or
with the character 4.
"""

import json
import sys
import threading
from queue import Empty, SimpleQueue

from confluent_kafka import Consumer


def main() -> None:
    """Be a member until the input ends."""
    consumer = Consumer(json.loads(sys.argv[1]))
    lines: SimpleQueue[str | None] = SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            if "\x04" in line:
                break
            lines.put(line)
        lines.put(None)

    threading.Thread(target=listen, daemon=True).start()
    consumer.subscribe(sys.argv[2:])
    told = None
    while True:
        try:
            line = lines.get_nowait()
        except Empty:
            pass
        else:
            if line is None:
                break
            consumer.subscribe(line.split())
        message = consumer.poll(0.2)
        error = message.error() if message is not None else None
        if error is not None and error.fatal():
            sys.exit(f"fatal: {error}")
        held: dict[str, list[int]] = {}
        for partition in consumer.assignment():
            held.setdefault(partition.topic, []).append(partition.partition)
        now = json.dumps({topic: sorted(held[topic]) for topic in sorted(held)})
        if now != told:
            print(now, flush=True)
            told = now
    consumer.close()


if __name__ == "__main__":
    main()
