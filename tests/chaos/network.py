"""Links between the parts of a fault run, which are cut, slowed down and held, each by itself.

controller, standby, monitor, consumer    from that role to the broker
spark                                     from Spark to the broker
connect                                   from consumers to the Connect server

Kafka tells clients where its brokers are. So the broker has a listener for each link, and says that
it is at the link's address. There are two controllers; `split-brain` takes Kafka away from the one
that leads, until the other one does. `clock-…` lets the clock of one process jump by a minute.
"""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np

from lagless.adapters.spark.sessions import HOST
from lagless.lab.parts import children
from lagless.lab.parts.faulty_link import FAULTS, Fault, FaultyLink
from lagless.lab.testbed import Testbed
from tests.chaos.linked import ACTS, clock_of

CONTROLLERS = ("controller", "standby")
TO_KAFKA = (*CONTROLLERS, "monitor", "consumer", "spark")
LINKS = ("controller", "monitor", "consumer", "spark", "connect")
SPLIT = "split-brain"
CLOCK = "clock"
CLOCKS = ("controller", "monitor", "consumer")
KINDS = (
    *(f"{fault}-{link}" for link in LINKS for fault in FAULTS),
    *(f"{CLOCK}-{role}" for role in CLOCKS),
    SPLIT,
)
JUMP = 60
"""Seconds by which a clock jumps, forward or back, and then returns."""
LATE = 3.0
"""Seconds after a cut in which a controller may still do what it had decided."""
Wait = Callable[[float, Callable[[], bool]], bool]


class Network:
    """The links of a fault run."""

    def __init__(self, folder: Path, dice: np.random.Generator) -> None:
        self._dice = dice
        self._file = folder / "links.json"
        self._links = {name: FaultyLink() for name in (*TO_KAFKA, "connect")}
        ports = children.free_tcp_ports(len(TO_KAFKA))
        for name, port in zip(TO_KAFKA, ports, strict=True):
            self._links[name].target = port
        self.done: Counter[str] = Counter()
        self.acts_while_cut: list[dict[str, Any]] = []
        self.taken_over = 0

    @property
    def listeners(self) -> dict[str, str]:
        """The broker's settings: a listener behind each link."""

        def join(form: str) -> str:
            links = {name: self._links[name] for name in TO_KAFKA}
            return ",".join(
                form.format(name=f"VIA_{name.upper()}", bound=link.target, link=link.address)
                for name, link in links.items()
            )

        return {
            "listeners": join("{name}://" + HOST + ":{bound}"),
            "advertised.listeners": join("{name}://{link}"),
            "listener.security.protocol.map": join("{name}:PLAINTEXT"),
        }

    def start(self, bed: Testbed) -> None:
        """Lead to the parts of this testbed, and tell roles where they are."""
        self._links["connect"].target = int(bed.connect.url.rpartition(":")[2])
        addresses = {name: link.address for name, link in self._links.items()}
        self._file.write_text(json.dumps(addresses))

    def start_role(self, bed: Testbed, name: str, config: Path) -> None:
        """Start a role, whose connections go through its link."""
        role = "controller" if name in CONTROLLERS else name
        words = ("tests.chaos.linked", str(self._file), name, role, "--config", str(config))
        bed.start_module(name, *words)

    def misbehave(self, kind: str, bed: Testbed, wait: Wait) -> str:
        """Have a fault for some seconds, and return what was done."""
        self.done[kind] += 1
        if kind == SPLIT:
            return self._split(bed, wait)
        fault, _, name = kind.rpartition("-")
        if fault == CLOCK:
            return self._jump(name, bed, wait)
        amount = {"delay": self._dice.uniform(0.05, 0.5), "throttle": self._dice.uniform(2e4, 2e5)}
        names = (leader(bed),) if name == "controller" else (name,)
        seconds = float(self._dice.uniform(2, 15))
        for one in names:
            self._links[one].fail(cast(Fault, fault), amount.get(fault, 0))
        wait(seconds, lambda: False)
        for one in names:
            self._links[one].heal()
        return f"{kind} for {seconds:.0f} s"

    def _jump(self, role: str, bed: Testbed, wait: Wait) -> str:
        name = leader(bed) if role == "controller" else role
        if role == "consumer":
            name = f"{role}-{int(self._dice.integers(1, 4))}"
        seconds = int(self._dice.choice([-JUMP, JUMP]))
        clock_of(self._file, name).write_text(str(seconds))
        wait(float(self._dice.uniform(5, 20)), lambda: False)
        clock_of(self._file, name).write_text("0")
        return f"the clock of {name} jumps by {seconds} s and back"

    def _split(self, bed: Testbed, wait: Wait) -> str:
        cut = leader(bed)
        other = next(name for name in CONTROLLERS if name != cut)
        before = len(self._acts())
        fault = FAULTS[int(self._dice.choice([FAULTS.index("cut"), FAULTS.index("half-open")]))]
        self._links[cut].fail(fault)
        wait(LATE, lambda: False)
        between = len(self._acts())
        leads = wait(90, lambda: leader(bed) == other)
        self.taken_over += leads
        wait(float(self._dice.uniform(2, 10)), lambda: False)
        self.acts_while_cut += [act for act in self._acts()[between:] if act["by"] == cut]
        self._links[cut].heal()
        told = "leads" if leads else "does not lead"
        return f"{fault} of {cut}, which led; {other} {told}, {len(self._acts()) - before} acts"

    def _acts(self) -> list[dict[str, Any]]:
        file = self._file.with_name(ACTS)
        lines = file.read_text().splitlines() if file.exists() else []
        return [json.loads(line) for line in lines]

    def report(self) -> dict[str, Any]:
        """Return the fields of a fault run's report."""
        return {
            "network": dict(self.done),
            "taken_over": self.taken_over,
            "acts_while_cut": self.acts_while_cut,
            "resets": {name: link.refused for name, link in self._links.items()},
        }

    def close(self) -> None:
        """End the links."""
        for link in self._links.values():
            link.close()


def leader(bed: Testbed) -> str:
    """Return the controller that began to lead last."""
    began = {}
    for name in CONTROLLERS:
        log = bed.log(name)
        said = log.read_text(errors="replace").splitlines() if log.exists() else []
        told = [line for line in said if line.startswith(("leading from", "standing by"))]
        if told and told[-1].startswith("leading"):
            began[name] = max(int(line.split()[-1]) for line in told if line.startswith("lead"))
    return max(began, key=lambda name: began[name]) if began else CONTROLLERS[0]
