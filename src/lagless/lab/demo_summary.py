"""The summary of a run: the lake counted against what was produced, and the group's times."""

from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from lagless.lab.load import counting
from lagless.lab.testbed import Listener


@dataclass(frozen=True, slots=True)
class Report:
    """The fields of `lagless demo --report`."""

    produced: int
    landed: int
    lost: int
    gone: int
    duplicated: int
    out_of_order: int
    rejected: int
    reassignments: int
    migrations: int
    consumers_max: int
    lag_seconds_p99: float | None
    dt1: float | None
    dt2: float | None
    dt3: float | None
    dt4: float | None
    steady_p50: float | None = None
    steady_p99: float | None = None
    spike_p99: float | None = None

    def fields(self) -> dict[str, float | int | None]:
        """Return the report as JSON has it."""
        return asdict(self)

    @property
    def clean(self) -> bool:
        """Whether every record landed once and in order."""
        return self.lost == self.duplicated == self.out_of_order == 0


@dataclass(frozen=True, slots=True)
class Phases:
    """When the load was steady, and when a spike was on, as timestamps of records."""

    steady: counting.Chosen
    spike: counting.Chosen


def make(
    count: counting.Count,
    listener: Listener,
    *,
    dt1: float | None = None,
    unread: int = 0,
    phases: Phases | None = None,
) -> Report:
    """Return the report; records still unread when a run was stopped are not counted at all."""
    delays = {}
    if phases is not None:
        delays = {
            "steady_p50": _rounded(count.delay(0.5, phases.steady)),
            "steady_p99": _rounded(count.delay(0.99, phases.steady)),
            "spike_p99": _rounded(count.delay(0.99, phases.spike)),
        }
    reassignments = listener.history.reassignments
    return Report(
        produced=count.produced - unread,
        landed=count.landed,
        lost=count.lost - unread,
        gone=count.gone,
        duplicated=count.duplicated,
        out_of_order=count.out_of_order,
        rejected=count.rejected,
        reassignments=len(reassignments),
        migrations=sum(reassignment.migrations for reassignment in reassignments),
        consumers_max=listener.consumers_max,
        lag_seconds_p99=_rounded(count.delay(0.99)),
        dt1=_rounded(dt1),
        dt2=_rounded(listener.median("dt2")),
        dt3=_rounded(listener.median("dt3")),
        dt4=_rounded(listener.median("dt4")),
        **delays,
    )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def show(report: Report, console: Console) -> None:
    """Print the report for people."""
    colour = "green" if report.clean else "red"
    faults = f"{report.lost:,} · {report.duplicated:,} · {report.out_of_order:,}"
    table = Table(show_header=False, box=None, padding=(0, 2))
    lines = (
        ("records produced", f"{report.produced:,}"),
        ("landed in the lake, once and in order", f"{report.landed:,}"),
        ("lost · duplicated · out of order", f"[{colour}]{faults}[/]"),
        ("rejected · deleted by Kafka before read", f"{report.rejected:,} · {report.gone:,}"),
        ("reassignments · partitions moved", f"{report.reassignments} · {report.migrations}"),
        ("consumers at most", str(report.consumers_max)),
        ("produced → readable in the lake, p99", _seconds(report.lag_seconds_p99)),
        ("  of it at steady load, p50 · p99", _both(report.steady_p50, report.steady_p99)),
        ("  of it in spikes, p99", _seconds(report.spike_p99)),
        ("Δt1 speed change → monitor shows it", _seconds(report.dt1)),
        ("Δt2 measurement → creation requested", _seconds(report.dt2)),
        ("Δt3 requested → ready", _seconds(report.dt3)),
        ("Δt4 first order → last receipt", _seconds(report.dt4)),
    )
    for line in lines:
        table.add_row(*line)
    console.print(table)


def _both(one: float | None, other: float | None) -> str:
    return f"{_seconds(one)} · {_seconds(other)}"


def _seconds(value: float | None) -> str:
    return "not seen" if value is None else f"{value:.2f} s"
