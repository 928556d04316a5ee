"""What lagless would make of a group that was surveyed, in numbers and in warnings."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from lagless import model
from lagless.lab.model import latency, side_by_side
from lagless.lab.model.streams import Floats
from lagless.model import TopicPartition
from lagless.operations import adoption_lines
from lagless.operations.group_survey import Subject, Survey
from lagless.settings import Settings, units
from lagless.wiring import controller as wiring


def known_rate(settings: Settings, survey: Survey, given: float | None) -> tuple[float, str]:
    """Return what a consumer can read, in bytes per second, and how that is known."""
    if given is not None:
        return given, "option"
    if settings.members.rate is not None:
        return settings.members.rate, "settings"
    if survey.learned.rate is not None:
        return survey.learned.rate, "measured"
    # Whoever read this much can read this much: with it, no member is packed too tightly.
    fastest = max(survey.learned.lately.values(), default=0.0)
    if fastest > 0:
        return fastest, "lower bound"
    return max(_heaviest(survey), 1.0), "assumed"


def judge(
    settings: Settings, subject: Subject, survey: Survey, given: float | None
) -> dict[str, Any]:
    """Return what was measured, what lagless would do, and the lines that hand the group over."""
    rate, source = known_rate(settings, survey, given)
    controller = settings.controller
    capacity = model.capacity(rate, controller.iteration, controller.rebalance)
    group, algorithm = survey.group, wiring.algorithm(settings)
    speeds = np.array(survey.speeds)
    lag = np.array([survey.lag.get(p, 0.0) for p in survey.partitions])
    found: dict[str, Any] = {
        "group": settings.group,
        "bootstrap": settings.kafka.bootstrap,
        "state": group.state,
        "protocol": group.protocol,
        "assignor": group.assignor,
        "topics": list(subject.topics),
        "partitions": len(survey.partitions),
        "seconds": survey.seconds,
        "measurements": len(speeds),
        "bytes_per_second": float(speeds.mean(axis=0).sum()),
        "lag_bytes": float(lag.sum()),
        "rate": {"value": rate, "source": source, "members": len(survey.learned.samples)},
        "capacity": capacity,
        "algorithm": algorithm,
        "now": None,
        "then": None,
        "members": _members(survey),
    }
    names = sorted({name for row in survey.holders for name in row} - {""})
    number = {"": 0} | {name: k for k, name in enumerate(names, start=1)}
    holders = np.array([[number[name] for name in row] for row in survey.holders], np.int64)
    held = holders[0] > 0
    # A partition that nobody reads has no way of now. If nobody reads at all, plan for everything.
    compared = held if held.any() else ~held
    found["unread"] = [
        str(p) for p, is_held in zip(survey.partitions, held, strict=True) if not is_held
    ]
    oversize: list[TopicPartition] = []
    if len(speeds) >= side_by_side.LEAST:
        waits = latency.Model(rate, survey.step, min(controller.rebalance, survey.step))
        speeds, holders = speeds[:, compared], holders[:, compared]
        if held.any():
            found["now"] = _way(side_by_side.now(speeds, holders, waits)) | {
                "consumers": len(group.members),
                "idle": sum(not member.held for member in group.members),
            }
        then = side_by_side.then(
            speeds, holders[0], waits, capacity, algorithm, lag[compared], controller.catch_up
        )
        found["then"] = _way(then.way) | {
            "first_moves": then.first_moves,
            "first_rscore": then.first_rscore,
            "consumers_catching_up": then.catching_up,
        }
        columns = [p for p, kept in zip(survey.partitions, compared, strict=True) if kept]
        oversize = [columns[j] for j in then.oversize]
    found["oversize"] = list(map(str, oversize))
    found["warnings"] = list(warnings(settings, subject, found))
    shown = _rate_text(rate) if source in ("option", "settings", "measured") else None
    lines = adoption_lines.lines(settings, subject.topics, shown)
    found["lines"] = asdict(lines)
    return found


def warnings(settings: Settings, subject: Subject, found: dict[str, Any]) -> Iterator[str]:
    """Say what a reader of the numbers should know, and what stands in the way of adopting."""
    most = settings.controller.max_consumers
    if found["rate"]["source"] == "lower bound":
        yield (
            "no member had a backlog, so what one can read is not known: the numbers assume the "
            "most that one read, and fewer consumers may do; give --rate if you know it"
        )
    if found["rate"]["source"] == "assumed":
        yield (
            "the group committed nothing in this time, so neither its lag nor what a consumer can "
            "read is known: the numbers assume the highest load now; give --rate"
        )
    if not found["members"]:
        yield (
            f"the group has no members now ({found['state']}): they are stopped, or they choose "
            "their partitions by assign(), which no assignor can change"
        )
    elif found["unread"]:
        yield f"read by nobody, and left out: {_some(found['unread'])}"
    if subject.left_out:
        yield f"topics with offsets that no member reads, left out: {_some(subject.left_out)}"
    if found["oversize"]:
        yield (
            f"faster than the capacity of a consumer, so that even one alone falls behind: "
            f"{_some(found['oversize'])}"
        )
    if found["then"] and found["then"]["consumers"] > most:
        yield f"controller.max_consumers is {most}, less than that"
    if found["protocol"] == "classic":
        yield (
            "the members use the classic protocol; restarted one by one with "
            "group.protocol=consumer, Kafka moves the group over"
        )
    if found["members"] and not all(member["static"] for member in found["members"].values()):
        yield (
            "some members have no group.instance.id: lagless matches them by what they hold, but "
            "names make plans and dashboards readable, and a restart move nothing"
        )


def _members(survey: Survey) -> dict[str, Any]:
    return {
        member.name: {
            "client": member.client,
            "host": member.host,
            "static": bool(member.instance),
            "partitions": sorted(map(str, member.held)),
            "lag_bytes": sum(survey.lag.get(p, 0.0) for p in member.held),
            "read_rate": survey.learned.lately.get(member.name),
            "rate_with_backlog": survey.learned.of(member.name),
        }
        for member in survey.group.members
    }


def _way(way: side_by_side.Way) -> dict[str, Any]:
    late = way.latency.late
    return {
        "consumers": way.consumers,
        "consumers_mean": way.consumers_mean,
        "worst_load": way.worst_load,
        "moves": way.moves,
        "bytes": way.latency.bytes,
        "late_bytes": late.total,
        **{f"p{q}": late.quantile(q / 100) for q in (50, 90, 99)},
        "max": late.max,
    }


def _heaviest(survey: Survey) -> float:
    """Return the highest load of a member, or of a partition if there are no members."""
    mean: Floats = np.array(survey.speeds).mean(axis=0)
    loads: dict[str, float] = {}
    for name, speed in zip(survey.holders[-1], mean.tolist(), strict=True):
        loads[name] = loads.get(name, 0.0) + speed
    held = [load for name, load in loads.items() if name]
    return max(held or mean.tolist(), default=0.0)


def _rate_text(rate: float) -> str:
    return f"{units.text(rate)}/s"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
