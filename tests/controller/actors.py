"""Processes for the tests on a real broker: a consumer without Spark, and a controller that leads.

python -m tests.controller.actors consumer N CONFIG
python -m tests.controller.actors leader CONFIG
python -m tests.controller.actors controller CONFIG
"""

import os
import signal
import sys
import time
import uuid
from pathlib import Path
from threading import Event, Thread

from lagless import messages
from lagless.adapters.kafka.mail import ConsumerMailbox, ControllerMailbox
from lagless.adapters.processes import ProcessProvisioner
from lagless.consumer import order_machine
from lagless.controller.service import Service
from lagless.errors import Fenced
from lagless.messages import ControllerState
from lagless.settings import Settings, load
from lagless.wiring import controller as wiring
from lagless.wiring.clock import RealClock

CYCLE = float(os.environ.get("ACTOR_CYCLE", "0.3"))


def consumer(number: int, config: Path) -> None:
    """Follow orders in cycles that read nothing."""
    settings = load(config)
    mailbox = ConsumerMailbox(settings, number)
    name = messages.incarnation(os.environ.get("LAGLESS_BIRTH", ""), uuid.uuid4().hex[:8])
    state = order_machine.begin(settings.group, number, name, mailbox.recall())
    ending = Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())

    def beat() -> None:
        while not ending.is_set():
            positions = messages.nest(dict.fromkeys(state.held, 0))
            beat = order_machine.heartbeat(state, time.time(), ready=True, positions=positions)
            mailbox.send(beat)
            ending.wait(settings.consumer.heartbeat)

    Thread(target=beat, daemon=True).start()
    while not ending.is_set() and not state.ending:
        ending.wait(CYCLE)
        state = order_machine.receive(state, mailbox.receive(0))
        for partitions in order_machine.to_claim(state).values():
            state = order_machine.claimed(state, partitions)
        after, receipts = order_machine.settle(state, time.time())
        if receipts:
            mailbox.persist(order_machine.persisted(after, time.time()))
        for receipt in receipts:
            mailbox.send(receipt)
        state = after
    ending.set()
    mailbox.close()


def leader(config: Path) -> None:
    """Lead, write states as fast as told, and say what happens."""
    settings = load(config)
    mailbox = ControllerMailbox(settings)
    found = mailbox.lead()
    generation = found.generation if found is not None else 0
    print(f"leads {generation}", flush=True)
    try:
        while True:
            generation += 1
            state = ControllerState(group=settings.group, generation=generation, at=time.time())
            mailbox.send([], state)
            print(f"sent {generation}", flush=True)
            time.sleep(0.2)
    except Fenced:
        print("fenced", flush=True)
        time.sleep(600)


def controller(config: Path) -> None:
    """Run the real controller, with consumers that read nothing."""
    settings = load(config)
    ending = Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    mailbox = ControllerMailbox(settings, ending.is_set)
    service = Service(
        mailbox,
        provisioner(settings, config),
        RealClock(ending),
        wiring.policy(settings),
        algorithm=wiring.algorithm(settings),
    )
    service.begin()
    print("leads", flush=True)
    service.run(ending.is_set)


def provisioner(settings: Settings, config: Path) -> ProcessProvisioner:
    """Start consumers that read nothing."""
    command = [sys.executable, "-m", "tests.controller.actors", "consumer", "{}", str(config)]
    return ProcessProvisioner(config.parent / "consumers", command, restarts=20)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["consumer", number, config]:
            consumer(int(number), Path(config))
        case ["leader", config]:
            leader(Path(config))
        case ["controller", config]:
            controller(Path(config))
