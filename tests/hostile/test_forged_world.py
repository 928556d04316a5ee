"""Forged mail in the world in memory: reading may be held up, and no record is lost or doubled."""

import numpy as np
import pytest

from lagless import messages
from lagless.lab.world.simulated_consumer import SimulatedConsumer
from lagless.lab.world.simulated_tables import Violation
from lagless.lab.world.world import Weather, World
from tests.controller import histories

FORGERIES = 60
KINDS = ("order", "order", "receipt", "heartbeat", "operation", "state", "speeds")


class Attacked(World):
    """A world in which two may read at once, since somebody lies: only the tables are judged."""

    def check(self, process: SimulatedConsumer) -> None:
        if self.lake.faults:
            raise Violation(self.lake.faults[0])

    def check_ended(self, incarnations: object) -> None:
        """A healthy consumer may be given up when somebody else speaks in its name."""


def forge(world: World, dice: np.random.Generator) -> str:
    """Send one forged message, built from what can be read in the topics; return its kind."""
    running = [process for process in world.processes if process.alive]
    names = sorted(world.speeds)
    kind = str(dice.choice(KINDS))
    group, at = world.policy.group, world.at
    known = world.persisted.generation if world.persisted is not None else 0
    generation = known + int(dice.choice([-1, 0, 1, 5, 2**40, 2**61]))
    generation = max(0, min(generation, 2**62))
    some = [name for name in names if dice.integers(2)]
    pairs = tuple((p.topic, p.partition) for p in some)
    held = tuple((p.topic, p.partition, generation) for p in some)
    if not running:
        return ""
    for process in running:
        process.well = False  # it may be given up: somebody speaks in its name
    victim = running[int(dice.integers(len(running)))]
    standing = {
        "group": group,
        "consumer": victim.consumer,
        "incarnation": victim.incarnation,
        "highest": generation,
        "revision": int(dice.integers(50)),
        "held": held,
        "at": at,
    }
    match kind:
        case "order":
            command = str(dice.choice(["start", "stop", "report", "retire"]))
            victim.mailbox.inbox.append(
                messages.Order.model_validate(
                    {
                        "group": group,
                        "kind": command,
                        "consumer": victim.consumer,
                        "incarnation": victim.incarnation,
                        "generation": min(generation, messages.FARTHEST),
                        "partitions": pairs,
                        "at": at,
                    }
                )
            )
        case "receipt":
            answer = {"kind": "stop", "generation": generation, "partitions": pairs}
            world.mail.append(messages.Receipt.model_validate(standing | answer))
        case "heartbeat":
            world.mail.append(messages.Heartbeat.model_validate(standing | {"state": "ready"}))
        case "operation":
            wish = str(dice.choice(["pause", "drain", "resume"]))
            fields = {"group": group, "operation": wish, "id": str(at), "who": "eve", "at": at}
            world.asked.append(messages.Operation.model_validate(fields))
        case "state":
            if world.persisted is not None:
                world.persisted = world.persisted.model_copy(
                    update={"generation": known + 3, "team": (1, 2, 3), "members": {}}
                )
                world.kill_controller(1)
        case "speeds":
            world.measured = messages.WriteSpeeds(
                group=group, at=at, window=30, speeds={"t": {0: 1e18, 99: 5.0}}
            )
    return kind


@pytest.mark.parametrize("seed", range(6))
def test_forged_mail_costs_time_and_no_record(seed: int) -> None:
    history = histories.History(seed, 4, Weather(), ())
    calm = histories.build(history)
    world = Attacked(calm.policy, dict(calm.speeds), np.random.default_rng(seed), calm.weather)
    world.lake.generations_reused = True  # so that tables alone decide whose commit counts
    dice = np.random.default_rng([seed, 7])
    world.run(world.at + 20)
    sent = set()
    for _ in range(FORGERIES):
        world.run(world.at + float(dice.exponential(2)))
        sent.add(forge(world, dice))
    assert sent >= {"order", "receipt", "heartbeat"}
    world.operate("resume")
    histories.make_peace(world)
    assert world.lake.faults == []
    assert sum(len(landings) for landings in world.lake.ledger.values()) > 0
