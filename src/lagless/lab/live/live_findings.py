"""What follows from the observations: the numbers, and each part's words, tables and figures."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from lagless.lab.live import capacity, foreign_findings
from lagless.lab.live.journal import Data, correlation, known, spread
from lagless.lab.live.live_stream import PACKED
from lagless.lab.report import Section, Table


def steps_sums(data: Data) -> dict[str, Any]:
    """Return Δt1 in numbers; steps not shown before the next one are counted apart."""
    rows = data.get("steps", [])
    shown = known(rows, "seconds")
    return {
        "dt1": spread(shown),
        "up": spread(known([row for row in rows if row["after"] > row["before"]], "seconds")),
        "down": spread(known([row for row in rows if row["after"] <= row["before"]], "seconds")),
        "not_shown": len(rows) - len(shown),
        "window": data["settings"]["window"],
    }


def response_sums(data: Data) -> dict[str, Any]:
    """Return Δt2, Δt3 and Δt4 by provisioner, and by δ and whether consumers had to read."""
    passes, creations = data.get("reassignments", []), data.get("creations", [])
    found: dict[str, Any] = {}
    for kind in dict.fromkeys(row["provisioner"] for row in [*passes, *creations]):
        here = [row for row in passes if row["provisioner"] == kind]
        created = [row for row in creations if row["provisioner"] == kind]
        roomy = [row for row in created if not row.get("full")]
        found[kind] = {
            "dt2": spread(known(here, "dt2")),
            "dt2_slow": sum(seconds > 1 for seconds in known(here, "dt2")),
            "dt3": spread(known(roomy, "dt3")),
            "dt3_alone": spread(known(roomy, "dt3", together=1)),
            "dt3_full_node": spread(known(created, "dt3", full=True)),
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


def rates_sums(data: Data) -> dict[str, Any]:
    """Return the capacity: modes in bytes/s of each condition, and how far they are apart."""
    found = {row["condition"]: row["rates"] for row in data.get("conditions", []) if row["rates"]}
    modes = {number: capacity.mode(values) for number, values in found.items()}
    return {
        "conditions": {
            str(number): spread(found[number]) | {"mode": round(mode)}
            for number, mode in modes.items()
        },
        "max_rate": round(min(modes.values(), default=0.0)),
        "spread": round(max(modes.values()) / min(modes.values()), 3) if modes else None,
    }


SHOWN = (
    *("consumers", "records", "p50", "p90", "p99", "max", "lost", "duplicated", "unread"),
    *("out_of_order", "reassignments", "migrations", "rebalances", "refused", "model"),
    "consumer_seconds",
)


def runs_sums(data: Data) -> dict[str, Any]:
    """Return the numbers of each run of the latency parts, without its samples."""
    runs = data.get("runs", [])
    return {"runs": {row["name"]: {key: row[key] for key in SHOWN if key in row} for row in runs}}


def relieved_sums(data: Data) -> dict[str, Any]:
    """Return the seconds to relieved of each run; steps that were never relieved count apart."""
    found = {}
    for row in data.get("runs", []):
        seconds = known(row["steps"], "seconds")
        late = len(row["steps"]) - len(seconds)
        counts = {key: row[key] for key in ("consumers", "lost", "duplicated")}
        worst = max(known(row["steps"], "worst"), default=0.0)
        found[row["name"]] = {"relieved": spread(seconds), "not": late, "worst": worst, **counts}
    return {"runs": found}


SUMS: Mapping[str, Callable[[Data], dict[str, Any]]] = {
    "dt1": steps_sums,
    "response": response_sums,
    "capacity": rates_sums,
    "delay": runs_sums,
    "rival": runs_sums,
    "members": foreign_findings.sums,
    "relieved": relieved_sums,
}
"""By the name of the part."""

PS = ("p50", "p90", "p99")
RUNS = (
    *("", "consumers", "records", "p50 (s)", "p90 (s)", "p99 (s)", "most (s)", "lost", "doubled"),
    "unread",
)
MODEL = (
    *("", "consumers", "late bytes", "p50 (s)", "p90 (s)", "p99 (s)", "most (s)"),
    *("measured − model, p50", "p90", "p99"),
)


def _measured(runs: Sequence[Data]) -> Table:
    """Return the table of what each run had."""
    rows = []
    for row in runs:
        size = (f"{row['consumers']:.2f}", f"{row['records']:,}")
        seconds = ("none" if row[key] is None else f"{row[key]:.2f}" for key in (*PS, "max"))
        counts = (f"{row[key]:,}" for key in ("lost", "duplicated", "unread"))
        rows.append((row["name"], *size, *seconds, *counts))
    return Table("Measured", RUNS, rows)


def delay(data: Data) -> Section:
    """Return the section on end-to-end latency, with the model's answer for the same stream."""
    runs = data.get("runs", [])
    predicted = [
        (
            row["name"],
            f"{row['model']['consumers']:.2f}",
            f"{100 * row['model']['late']:.1f} %",
            *(f"{row['model'][key]:.2f}" for key in (*PS, "max")),
            *("none" if row[p] is None else f"{row[p] - row['model'][p]:+.2f}" for p in PS),
        )
        for row in runs
    ]
    moves = [
        f"{row['name']} reassigned {row['reassignments']} times and moved {row['migrations']} "
        "partitions"
        for row in runs
        if row.get("reassignments")
    ]
    words = [
        f"{data['settings']['partitions']} partitions under the paper's stream with δ = 5; a "
        "consumer is held to C̄ = 200 kB/s and given C = 5/6 of it. Every record written after a "
        "settling minute counts: from its timestamp in Kafka to the commit that makes it "
        "readable. lagless packs with mwf or sticky; kd_n is a fixed group of n that deals "
        "partitions out by count and runs the same consumer, n being what lagless used on average, "
        "rounded up, which is in its favour. It also has its consumers reading before "
        "the load begins.",
        *_compared(runs),
        *([f"{'; '.join(moves)}, the start included."] if moves else []),
        "The paper's model knows only bytes that a consumer is too slow for, or that wait out a "
        "rebalance. Measured records also wait for their batch to be gathered (up to 2 s) and for "
        "the cycle that reads, writes and commits it, and a moved partition waits as long as the "
        "move takes, not a fixed 2.5 s. So where the model says 0 the measurement has a floor of a "
        "few seconds; where a consumer is overloaded the backlog decides. A fixed group that is "
        "too slow for the first row also begins with what it was late with after the settling "
        "minute, which the model does not have.",
    ]
    tables = [_measured(runs), Table("The model, of all bytes", MODEL, predicted)]
    return Section("End-to-end latency", words, tables, ["delay", "consumers"])


def _compared(runs: Sequence[Data]) -> Iterator[str]:
    """Give a sentence per pair: which is better, at which percentile."""
    packed = [row for row in runs if row["name"] in PACKED and row["p50"] is not None]
    others = [row for row in runs if row not in packed and row["p50"] is not None]
    for other, mine in itertools.product(others, packed):
        parts = ", ".join(
            f"{key} {'better' if mine[key] < other[key] else 'worse'} "
            f"({mine[key]:.2f} against {other[key]:.2f} s)"
            for key in PS
        )
        yield (
            f"{mine['name']} with {mine['consumers']:.1f} consumers against {other['name']} "
            f"with {other['consumers']:.1f}: {parts}."
        )


def rival(data: Data) -> Section:
    """Return the section on an ordinary group scaled by KEDA's rule."""
    runs = data.get("runs", [])
    words = [
        "An ordinary consumer group with cooperative-sticky assignment (confluent-kafka), whose "
        "members append to Delta with deltalake and commit offsets afterwards, on the same stream "
        "and held to the same rate. KEDA's rule scales it: every 30 s replicas = lag / threshold, "
        "at most one per partition, fewer only after 300 s. The threshold is ten seconds of one "
        "consumer's reading. In its favour: it begins with as many consumers as sticky, all joined "
        "before the load begins; new ones are processes, not pods; it grows without the "
        "autoscaler's limits; members that go have time to write and commit; and it has no Spark, "
        "so that a member starts sooner and a batch is written faster."
    ]
    for row in runs:
        sizes = [size for _, size in row["line"]]
        words.append(
            f"It had {min(sizes, default=0)} to {max(sizes, default=0)} consumers, "
            f"changed its size {row['rebalances']} times, had {row['refused']} commits of offsets "
            f"refused, {row['lost']:,} records lost and {row['duplicated']:,} doubled."
        )
    return Section("A rival: a plain group scaled by KEDA", words, [_measured(runs)])


def against(measured: Data, other: Data) -> list[str]:
    """Return sentences that compare lagless with the rival."""
    packed = [row for row in measured.get("runs", []) if row["name"] in PACKED]
    remarks = list(_compared([*packed, *other.get("runs", [])]))
    minutes = [data["settings"]["minutes"] for data in (measured, other)]
    if remarks and minutes[0] != minutes[1]:
        remarks.append(
            f"lagless was measured for {minutes[0]:g} minutes of that stream, the rival for "
            f"{minutes[1]:g}."
        )
    return remarks


RELIEF = ("", "step at (s)", "relieved after (s)", "most that waited (s)", "consumers")


def relieved(data: Data) -> Section:
    """Return the section on step → relieved."""
    rows = [
        (
            row["name"],
            f"{step['at']:g}",
            "never" if step["seconds"] is None else f"{step['seconds']:.1f}",
            f"{step['worst']:.1f}",
            " → ".join(f"{count:g}" for count in step["consumers"]),
        )
        for row in data.get("runs", [])
        for step in row["steps"]
    ]
    words = [
        "The load of one consumer doubles at each step, all partitions together. A group is "
        "relieved when no more than twice as much waits as before the step in the median, in "
        "seconds of writing (3 s always may), until the next step. lagless has its defaults. The "
        "rival is the plain group of the last part, at the autoscaler's pace: every 15 s, within "
        "its tolerance of 10 %, at most twice as many consumers or four more, fewer only "
        "after 300 s. It sees the lag of the moment; KEDA's polling of 30 s, which counts where "
        "metrics are cached, is left out in its favour, as is the time that pods take to start.",
        *(
            f"{name}: median {part['relieved']['p50']:.1f} s"
            + (f", {part['not']} steps never" if part["not"] else "")
            + f", {part['lost']} records lost and {part['duplicated']} doubled."
            for name, part in relieved_sums(data)["runs"].items()
            if part["relieved"]["count"]
        ),
    ]
    return Section("Step → relieved", words, [Table("", RELIEF, rows)])


HEADER = ("", "observations", "p10 (s)", "median (s)", "p90 (s)", "p99 (s)", "most (s)")


def line(name: str, found: Data) -> tuple[str, ...]:
    """Return a spread as a line of a table."""
    if not found["count"]:
        return (name, "0", *["none"] * 5)
    values = (f"{found[key]:.2f}" for key in ("p10", "p50", "p90", "p99", "max"))
    return (name, str(found["count"]), *values)


def steps(data: Data) -> Section:
    """Return the section on Δt1."""
    found = steps_sums(data)
    window = found["window"]
    words = [
        "Eight partitions are written to in steps of their own, up or down by a factor of 1.5 or "
        "more. The truth is what the log files grew by. The monitor measures at least every "
        f"{window / 6:g} s over a window of {window:g} s; a step counts as shown when what it "
        "publishes is within 5 % of the new speed and stays there until the next step.",
        f"The paper says 30 s, the length of the window, and shows no measurement. {_shown(found)} "
        "The paper's plain average needs nearly the whole window, until the old speed is less "
        "than 5 % of it; this monitor starts a new window at each change that it detects.",
    ]
    groups = (("all", "dt1"), ("faster", "up"), ("slower", "down"))
    table = Table("Δt1", HEADER, [line(name, found[key]) for name, key in groups])
    return Section("Δt1: the monitor shows a new speed", words, [table], ["dt1"])


def _shown(found: Data) -> str:
    if not found["dt1"]["count"]:
        return "No step was shown before the next one."
    late = found["not_shown"]
    missed = f"; {late} steps were not shown before the next one" if late else ""
    return f"Here the median is {found['dt1']['p50']:.1f} s{missed}."


RESPONSES = (
    *(("Δt2", "dt2"), ("Δt3", "dt3"), ("Δt3, requested alone", "dt3_alone")),
    *(("Δt3, no room at first", "dt3_full_node"), ("Δt4", "dt4")),
    *(("Δt4, nothing to read", "dt4_idle"), ("Δt4, reading", "dt4_reading")),
    *(("Δt4, δ = 5", "dt4_delta_5"), ("Δt4, δ = 25", "dt4_delta_25")),
)
"""Lines of the table: what is measured, before and after the provisioner's name, and its key."""


def response(data: Data) -> Section:
    """Return the section on Δt2, Δt3 and Δt4."""
    found = response_sums(data)
    passes = data.get("reassignments", [])
    rows: list[tuple[str, ...]] = []
    words = [
        "The monitor is replaced by streams with δ = 5 and δ = 25 of 32 partitions, at most 20 "
        "consumers, MWF, as the paper did. Controller, mailbox, provisioner and consumers are the "
        "real ones. "
        + f"{sum(row['reading'] for row in passes)} of {len(passes)} reassignments were seen while "
        "every partition got 4 kB/s, so that consumers, about five, were always in a cycle; the "
        "rest while nothing was written, with up to 20 consumers."
    ]
    for kind, part in found["provisioners"].items():
        rows += [
            line(f"{name[:3]}, {kind}{name[3:]}", part[key])
            for name, key in RESPONSES
            if key != "dt3_full_node" or part[key]["count"]
        ]
        words += _answers(kind, part)
    if found["lost"]:
        words.append(f"{found['lost']} times a consumer was taken for lost and replaced.")
    figures = ["dt2", "dt3", "dt4", "dt4-consumers"]
    return Section("Δt2, Δt3, Δt4: the group answers", words, [Table("", HEADER, rows)], figures)


def _answers(kind: str, part: Data) -> Iterator[str]:
    """Give a sentence on each time beside the paper's."""
    if part["dt2"]["count"]:
        yield (
            f"Δt2: the paper says less than 1 s, always; with {kind} {part['dt2_slow']} of "
            f"{part['dt2']['count']} took longer, and the 99th percentile is "
            f"{part['dt2']['p99']:.2f} s."
        )
    if part["dt3"]["count"]:
        yield (
            f"Δt3: the paper's Kubernetes took 10 to 50 s in 88 % of the cases, and up to 500 s "
            f"where a node had to be added. With {kind} on this machine the median is "
            f"{part['dt3']['p50']:.1f} s and the most {part['dt3']['max']:.1f} s. There is no "
            "image to fetch and no node to add here, so this says nothing about a cloud; it is the "
            "time of Python's imports on few cores, which is why many at once take so much longer."
        )
    if part["dt4"]["count"]:
        share = part["by_involved"], part["by_involved_idle"]
        shown = " and ".join("unknown" if r is None else f"{r:.2f}" for r in share)
        yield (
            "Δt4: the paper says around 5 s, two consumer cycles of 2.5 s. Here the median is "
            f"{part['dt4_idle'].get('p50', 0):.2f} s while there is nothing to read, since an idle "
            f"consumer takes an order at once, and {part['dt4_reading'].get('p50', 0):.2f} s while "
            "all read. The paper expects Δt4 to grow with the number of consumers; it correlates "
            f"with the number that give or get a partition by {shown} (reading and idle)."
        )


def rates(data: Data) -> Section:
    """Return the section on the capacity."""
    found = rates_sums(data)
    paper = {"1": 648, "2": 100, "3": 678}
    rows = [
        (
            f"Test {number}",
            f"{paper[number] * data['settings']['scale']:g}",
            str(part["count"]),
            *(f"{part[key] / 1e6:.2f}" for key in ("mode", "p10", "p50", "p90")),
        )
        for number, part in found["conditions"].items()
    ]
    header = ("", "MB", "cycles", "mode (MB/s)", "p10", "median", "p90")
    words = [
        "One consumer reads the paper's three conditions at full speed in cycles of 5 MB: 32 "
        "partitions into one table, 116 into five, 144 into five. The paper found one mode of "
        "2.3 MB/s for all three."
    ]
    if found["spread"] is not None:
        words.append(
            f"Here the modes differ by a factor of {found['spread']:.2f}. "
            + (
                "So a single C̄ is a fair model, as in the paper."
                if found["spread"] < 1.25
                else "So one C̄ for all conditions is not what this consumer has: five tables cost "
                "five writes and five commits a cycle. C̄ is taken from the slowest."
            )
        )
        slower = [f"Test {n}" for n, part in found["conditions"].items() if part["mode"] < 2.3e6]
        words.append(
            f"Below the paper's mode: {', '.join(slower)}. Each condition begins with a Spark that "
            "has only been warmed up, and its first dozens of cycles are the slowest."
            if slower
            else "All modes are above the paper's."
        )
    return Section("Capacity of a consumer", words, [Table("", header, rows)], ["capacity"])


SECTIONS: Mapping[str, Callable[[Data], Section]] = {
    "dt1": steps,
    "response": response,
    "capacity": rates,
    "delay": delay,
    "rival": rival,
    "members": foreign_findings.members,
    "relieved": relieved,
}
"""By the name of the part, in the order of the page."""
