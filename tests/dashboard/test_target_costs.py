"""What other targets would cost: computed beside the page, while somebody looks at it."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from lagless.dashboard import colours, costing, snapshot, target_costs, view
from lagless.dashboard.costing import Costing
from lagless.dashboard.observations import Observations, Sample
from lagless.dashboard.snapshot import Cost, Costs, Link, Snapshot
from lagless.errors import WrongInput
from lagless.lab import rehearsals
from lagless.model import Speeds, TopicPartition
from tests import waiting
from tests.dashboard import plays

KNOBS = plays.settings()
P = TopicPartition("orders", 0)
ROW = {"delay_p99": 1.5, "late_share": 0.02, "consumers": 4.0, "moves_per_hour": 30.0}
ROWS = [{"delay": 5.0, "chosen": True, **ROW}, {"delay": 60.0, "chosen": False, **ROW}]
Asked = Sequence[tuple[float, Speeds]]


def samples(*times: float) -> list[Sample]:
    return [Sample(at, {P: 1e6}, frozenset(), plain_kafka=1, bound=0.6) for at in times]


def costs(*found: tuple[float, bool, float, float]) -> Costs:
    rows = [Cost(delay, own, reached, 0.01, n, 10) for delay, own, reached, n in found]
    return Costs(tuple(rows), 600)


def shown(known: Costs) -> Snapshot:
    seen = view.look(Observations(plays.GROUP, KNOBS.capacity), KNOBS, 0.0, Link(heard=True))
    return replace(seen, costs=known)


def test_the_replay_is_the_one_of_plan() -> None:
    observations = Observations(plays.GROUP, KNOBS.capacity)
    for message in plays.past(plays.Group(KNOBS), 1e6, 300, plays.walk(3, KNOBS.capacity)):
        observations.take(message)
    measured = [(sample.at, sample.speeds) for sample in observations.samples]
    found = rehearsals.recent_targets(KNOBS, measured, KNOBS.max_rate)
    material = rehearsals.recent(KNOBS, measured)
    assert found == rehearsals.targets(KNOBS, material)
    assert material.step == rehearsals.STEP
    assert len(material.speeds) == len(measured)


def test_consumers_that_read_less_are_more() -> None:
    measured = [(5.0 * k, {TopicPartition("orders", j): 5e5 for j in range(8)}) for k in range(20)]
    others = KNOBS.model_copy(
        update={"members": KNOBS.members.model_copy(update={"kind": "group"})}
    )
    fast, slow = (rehearsals.recent_targets(others, measured, rate) for rate in (4e6, 1e6))
    assert fast[0]["consumers"] < slow[0]["consumers"]


def test_it_replays_only_while_somebody_looks_and_not_all_the_time() -> None:
    asked: list[float] = []
    done = threading.Event()

    def replay(measured: Asked, rate: float) -> list[dict[str, Any]]:
        asked.append(rate)
        done.set()
        return ROWS

    beside = Costing(replay)
    assert beside.offer(samples(0, 100), 2e6, 100.0).rows == ()
    beside.look(100.0)
    beside.offer(samples(0, 30), 2e6, 100.0)
    beside.offer(samples(0, 100), 0.0, 100.0)
    assert asked == [], "too little traffic, or nobody knows what a consumer reads"
    beside.offer(samples(0, 100), 2e6, 100.0)
    assert done.wait(20)
    found = waiting.until(lambda: beside.offer([], 2e6, 100.0).rows, "the answer", 20)
    assert found[0] == Cost(5.0, True, 1.5, 0.02, 4.0, 30.0)
    waiting.until(lambda: not beside._busy(), "the end of the thread", 20)
    beside.look(110.0)
    beside.offer(samples(0, 110), 2e6, 110.0)
    assert len(asked) == 1, "it was computed a moment ago"
    done.clear()
    beside.look(101.0 + costing.EVERY)
    beside.offer(samples(0, 100), 2e6, 101.0 + costing.EVERY)
    assert done.wait(20)


def test_what_cannot_be_replayed_is_said() -> None:
    def replay(measured: Asked, rate: float) -> Sequence[Mapping[str, Any]]:
        raise WrongInput("too few")

    beside = Costing(replay)
    beside.look(0.0)
    beside.offer(samples(0, 100), 2e6, 0.0)
    told = partial(beside.offer, [], 2e6, 0.0)
    assert "too few" in waiting.until(lambda: told().trouble, "the trouble", 20)
    assert Costing(None).offer([], 2e6, 0.0).trouble


def test_the_curve_goes_from_left_to_right_and_equals_share_a_point() -> None:
    known = costs((2, False, 0.5, 6.0), (10, True, 1.5, 4.5), (60, False, 3, 4), (300, False, 3, 4))
    drawn = target_costs.option(shown(known), colours.LIGHT)["series"][0]["data"]
    assert [point["value"][:3] for point in drawn] == [
        [4.0, 3.0, "60 s, 5 min"],
        [4.5, 1.5, "10 s"],
        [6.0, 0.5, "2 s"],
    ]
    assert drawn[1]["itemStyle"]["color"] == colours.LIGHT.warn
    assert "The target is 10 s" in target_costs.caption(shown(known))
    assert target_costs.table(shown(known)).count("<tr>") == 5
    assert snapshot.document(shown(known))["targets"][1]["chosen"] is True


def test_without_costs_it_says_why() -> None:
    assert "enough measurements" in target_costs.caption(shown(Costs()))
    assert target_costs.caption(shown(Costs(trouble="broken"))) == "broken"
    assert target_costs.option(shown(Costs()), colours.DARK)["series"][0]["data"] == []
