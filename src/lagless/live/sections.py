"""What is said about each part: words, tables and figures, for the HTML page and the Markdown one.

Every number comes from the observations; where the paper has one, it stands beside.
"""

from collections.abc import Callable, Mapping
from typing import Any

from lagless.evaluation.report import Table
from lagless.live import latencies, numbers
from lagless.live.layout import Section
from lagless.live.numbers import Data

HEADER = ("", "observations", "p10 (s)", "median (s)", "p90 (s)", "p99 (s)", "most (s)")


def line(name: str, found: Mapping[str, Any]) -> tuple[str, ...]:
    """Write a spread as a line of a table."""
    if not found["count"]:
        return (name, "0", *["none"] * 5)
    values = (f"{found[key]:.2f}" for key in ("p10", "p50", "p90", "p99", "max"))
    return (name, str(found["count"]), *values)


def steps(data: Data) -> Section:
    """Tell Δt1."""
    found = numbers.steps(data)
    window = found["window"]
    words = [
        "Eight partitions are written to in steps of their own, up or down by a factor of 1.5 or "
        "more. The truth is what the log files grew by. The monitor measures every "
        f"{window / 6:g} s over a window of {window:g} s; a step counts as shown when what it "
        "publishes is within 5 % of the new speed and stays there until the next step.",
        "The paper says 30 s, the length of the window, and shows no measurement. "
        + _shown(found)
        + " It cannot be much shorter with this window: until the old speed makes up less than "
        "5 % of it, the average is not there yet.",
    ]
    rows = [line(name, found[key]) for name, key in _STEPS]
    return Section(
        "Δt1: the monitor shows a new speed", words, [Table("Δt1", HEADER, rows)], ["dt1"]
    )


_STEPS = (("all", "dt1"), ("faster", "up"), ("slower", "down"))


def _shown(found: Mapping[str, Any]) -> str:
    if not found["dt1"]["count"]:
        return "No step was shown before the next one."
    late = found["not_shown"]
    missed = f"; {late} steps were not shown before the next one" if late else ""
    return f"Here the median is {found['dt1']['p50']:.1f} s{missed}."


def response(data: Data) -> Section:
    """Tell Δt2, Δt3 and Δt4."""
    found = numbers.response(data)
    passes = data.get("reassignments", [])
    rows: list[tuple[str, ...]] = []
    words = [
        "The monitor is replaced by streams with δ = 5 and δ = 25 of 32 partitions, at most 20 "
        "consumers, MWF, as the paper did. Controller, mailbox, provisioner and consumers are the "
        "real ones. "
        + f"{sum(row['reading'] for row in passes)} of {len(passes)} reassignments were seen while "
        "every partition got 4 kB/s, so that consumers, about five, were always in a cycle; the "
        "rest while nothing was written, with up to 20 consumers.",
    ]
    for kind, one in found["provisioners"].items():
        rows += [
            line(f"Δt2, {kind}", one["dt2"]),
            line(f"Δt3, {kind}", one["dt3"]),
            line(f"Δt3, {kind}, requested alone", one["dt3_alone"]),
        ]
        if one["dt3_full_node"]["count"]:
            rows.append(line(f"Δt3, {kind}, no room at first", one["dt3_full_node"]))
        rows += [
            line(f"Δt4, {kind}", one["dt4"]),
            line(f"Δt4, {kind}, nothing to read", one["dt4_idle"]),
            line(f"Δt4, {kind}, reading", one["dt4_reading"]),
            line(f"Δt4, {kind}, δ = 5", one["dt4_delta_5"]),
            line(f"Δt4, {kind}, δ = 25", one["dt4_delta_25"]),
        ]
        words += _answers(kind, one)
    if found["lost"]:
        words.append(f"{found['lost']} times a consumer was taken for lost and replaced.")
    figures = ["dt2", "dt3", "dt4", "dt4-consumers"]
    return Section("Δt2, Δt3, Δt4: the group answers", words, [Table("", HEADER, rows)], figures)


def _answers(kind: str, one: Mapping[str, Any]) -> list[str]:
    told: list[str] = []
    if one["dt2"]["count"]:
        told.append(
            f"Δt2: the paper says less than 1 s, always; with {kind} {one['dt2_slow']} of "
            f"{one['dt2']['count']} took longer, and the 99th percentile is "
            f"{one['dt2']['p99']:.2f} s."
        )
    if one["dt3"]["count"]:
        told.append(
            f"Δt3: the paper's Kubernetes took 10 to 50 s in 88 % of the cases, and up to 500 s "
            f"where a node had to be added. With {kind} on this machine the median is "
            f"{one['dt3']['p50']:.1f} s and the most {one['dt3']['max']:.1f} s. There is no image "
            "to fetch and no node to add here, so this says nothing about a cloud; it is the time "
            "of Python's imports on few cores, which is why many at once take so much longer."
        )
    if one["dt4"]["count"]:
        share = one["by_involved"], one["by_involved_idle"]
        shown = " and ".join("unknown" if r is None else f"{r:.2f}" for r in share)
        told.append(
            "Δt4: the paper says around 5 s, two consumer cycles of 2.5 s. Here the median is "
            f"{one['dt4_idle'].get('p50', 0):.2f} s while there is nothing to read, since an idle "
            f"consumer takes an order at once, and {one['dt4_reading'].get('p50', 0):.2f} s while "
            "all read. The paper expects Δt4 to grow with the number of consumers; it correlates "
            f"with the number that give or get a partition by {shown} (reading and idle)."
        )
    return told


def rates(data: Data) -> Section:
    """Tell the capacity."""
    found = numbers.rates(data)
    paper = {"1": 648, "2": 100, "3": 678}
    rows = [
        (
            f"Test {number}",
            f"{paper[number] * data['settings']['scale']:g}",
            str(one["count"]),
            *(f"{one[key] / 1e6:.2f}" for key in ("mode", "p10", "p50", "p90")),
        )
        for number, one in found["conditions"].items()
    ]
    header = ("", "MB", "cycles", "mode (MB/s)", "p10", "median", "p90")
    words = [
        "One consumer reads the paper's three conditions at full speed in cycles of 5 MB: 32 "
        "partitions into one table, 116 into five, 144 into five. The paper found one mode of "
        "2.3 MB/s for all three.",
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
        words.append(_against_paper(found["conditions"]))
    return Section("Capacity of a consumer", words, [Table("", header, rows)], ["capacity"])


PAPER_RATE = 2.3e6
"""The paper's mode, in bytes per second."""


def _against_paper(conditions: Mapping[str, Any]) -> str:
    slower = [f"Test {n}" for n, one in conditions.items() if one["mode"] < PAPER_RATE]
    if not slower:
        return "All modes are above the paper's."
    return (
        f"Below the paper's mode: {', '.join(slower)}. Each condition begins with a Spark that has "
        "only been warmed up, and its first dozens of cycles are the slowest."
    )


SECTIONS: Mapping[str, Callable[[Data], Section]] = {
    "dt1": steps,
    "response": response,
    "capacity": rates,
    "delay": latencies.delay,
    "rival": latencies.rival,
}
"""By the name of the part, in the order of the page."""
