"""What follows from a part's observations: the numbers that are told, in JSON and on the pages."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lagless.evaluation import capacity

Data = Mapping[str, Any]
"""What the file of a part holds."""
QUANTILES = {"p10": 0.1, "p50": 0.5, "p90": 0.9, "p99": 0.99}


def spread(values: Sequence[float]) -> dict[str, float | int]:
    """Sum values up: how many, mean, quantiles, least and most; nothing but 0 for none."""
    if not len(values):
        return {"count": 0}
    found = np.asarray(values, dtype=np.float64)
    return {
        "count": len(found),
        "mean": round(float(found.mean()), 4),
        "min": round(float(found.min()), 4),
        **{name: round(float(np.quantile(found, q)), 4) for name, q in QUANTILES.items()},
        "max": round(float(found.max()), 4),
    }


def known(rows: Sequence[Mapping[str, Any]], key: str, **where: Any) -> list[float]:
    """Give the values of a key that are there, of the rows that fit."""
    return [
        float(row[key])
        for row in rows
        if row.get(key) is not None and all(row.get(name) == at for name, at in where.items())
    ]


def steps(data: Data) -> dict[str, Any]:
    """Sum Δt1 up; steps that were not shown before the next one are counted apart."""
    rows = data.get("steps", [])
    shown = known(rows, "seconds")
    up = [row for row in rows if row["after"] > row["before"]]
    down = [row for row in rows if row["after"] <= row["before"]]
    return {
        "dt1": spread(shown),
        "up": spread(known(up, "seconds")),
        "down": spread(known(down, "seconds")),
        "not_shown": len(rows) - len(shown),
        "window": data["settings"]["window"],
    }


def response(data: Data) -> dict[str, Any]:
    """Sum Δt2, Δt3 and Δt4 up, by provisioner, and by δ and whether consumers had to read."""
    passes, made = data.get("reassignments", []), data.get("creations", [])
    found: dict[str, Any] = {}
    for kind in dict.fromkeys(row["provisioner"] for row in [*passes, *made]):
        here = [row for row in passes if row["provisioner"] == kind]
        created = [row for row in made if row["provisioner"] == kind]
        full = [row for row in created if row.get("full")]
        created = [row for row in created if not row.get("full")]
        alone = [row for row in created if row["together"] == 1]
        found[kind] = {
            "dt2": spread(known(here, "dt2")),
            "dt2_slow": sum(seconds > 1 for seconds in known(here, "dt2")),
            "dt3": spread(known(created, "dt3")),
            "dt3_alone": spread(known(alone, "dt3")),
            "dt3_full_node": spread(known(full, "dt3")),
            "dt4": spread(known(here, "dt4")),
            "dt4_idle": spread(known(here, "dt4", reading=False)),
            "dt4_reading": spread(known(here, "dt4", reading=True)),
            "dt4_delta_5": spread(known(here, "dt4", delta=5.0)),
            "dt4_delta_25": spread(known(here, "dt4", delta=25.0)),
            "consumers_max": max((row["consumers"] for row in here), default=0),
            "by_involved": correlation(here, "involved", "dt4", reading=True),
            "by_involved_idle": correlation(here, "involved", "dt4", reading=False),
        }
    return {"provisioners": found, "lost": len(data.get("lost", ()))}


def correlation(rows: Sequence[Mapping[str, Any]], x: str, y: str, **where: Any) -> float | None:
    """Give how two numbers go together (Pearson), or None where that cannot be told."""
    fits = [row for row in rows if all(row.get(name) == at for name, at in where.items())]
    pairs = [(row[x], row[y]) for row in fits if row.get(x) is not None and row.get(y) is not None]
    if len(pairs) < 3:
        return None
    xs, ys = np.array(pairs, dtype=np.float64).T
    if xs.std() == 0 or ys.std() == 0:
        return None
    return round(float(np.corrcoef(xs, ys)[0, 1]), 3)


def rates(data: Data) -> dict[str, Any]:
    """Sum the capacity up: modes in bytes/s of each condition, and how far they are apart."""
    found = {row["condition"]: row["rates"] for row in data.get("conditions", []) if row["rates"]}
    modes = {number: capacity.mode(values) for number, values in found.items()}
    return {
        "conditions": {
            str(number): {**spread(values), "mode": round(modes[number])}
            for number, values in found.items()
        },
        "max_rate": round(min(modes.values(), default=0.0)),
        "spread": round(max(modes.values()) / min(modes.values()), 3) if modes else None,
    }


SHOWN = (
    *("consumers", "records", "p50", "p90", "p99", "max", "lost", "duplicated", "unread"),
    *("out_of_order", "reassignments", "migrations", "rebalances", "refused", "model"),
)


def runs(data: Data) -> dict[str, Any]:
    """Give the numbers of each run of the latency parts, without its samples."""
    return {
        "runs": {
            row["name"]: {key: row[key] for key in SHOWN if key in row}
            for row in data.get("runs", [])
        }
    }


SUMS: Mapping[str, Callable[[Data], dict[str, Any]]] = {
    "dt1": steps,
    "response": response,
    "capacity": rates,
    "delay": runs,
    "rival": runs,
}
"""By the name of the part."""
