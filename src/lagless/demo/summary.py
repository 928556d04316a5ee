"""What the demo says at its end: the lake counted against what was produced."""

from dataclasses import asdict, dataclass

from rich.console import Console
from rich.table import Table

from lagless.demo.ground import Ground
from lagless.demo.listening import Listener
from lagless.embedded import counting
from lagless.embedded.tally import Tally
from lagless.settings import Settings


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

    def fields(self) -> dict[str, float | int | None]:
        """Give the report as JSON has it."""
        return asdict(self)

    @property
    def clean(self) -> bool:
        """Whether every record landed once and in order."""
        return self.lost == self.duplicated == self.out_of_order == 0


def make(
    ground: Ground, settings: Settings, tally: Tally, listener: Listener, began: float, unread: int
) -> Report:
    """Count the lake; what was still unread when the demo was stopped is not counted at all."""
    tables = {topic: settings.table_of(topic) for topic in tally.produced}
    count = counting.count(ground.lake, tables, tally.produced)
    reassignments = listener.decisions.reassignments
    return Report(
        produced=count.produced - unread,
        landed=count.landed,
        lost=count.lost - unread,
        gone=count.gone,
        duplicated=count.duplicated,
        out_of_order=count.out_of_order,
        rejected=count.rejected,
        reassignments=len(reassignments),
        migrations=sum(one.migrations for one in reassignments),
        consumers_max=listener.consumers_max,
        lag_seconds_p99=_rounded(count.delay(0.99)),
        dt1=_rounded(listener.dt1(began)),
        dt2=_rounded(listener.median("dt2")),
        dt3=_rounded(listener.median("dt3")),
        dt4=_rounded(listener.median("dt4")),
    )


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def show(report: Report, console: Console) -> None:
    """Print the report for people."""
    table = Table(show_header=False, box=None, padding=(0, 2))
    lines = (
        ("records produced", f"{report.produced:,}"),
        ("landed in the lake, once and in order", f"{report.landed:,}"),
        ("lost · duplicated · out of order", _three(report)),
        ("rejected · deleted by Kafka before read", f"{report.rejected:,} · {report.gone:,}"),
        ("reassignments · partitions moved", f"{report.reassignments} · {report.migrations}"),
        ("consumers at most", str(report.consumers_max)),
        ("produced → readable in the lake, p99", _seconds(report.lag_seconds_p99)),
        ("Δt1 speed change → monitor shows it", _seconds(report.dt1)),
        ("Δt2 measurement → creation requested", _seconds(report.dt2)),
        ("Δt3 requested → ready", _seconds(report.dt3)),
        ("Δt4 first order → last receipt", _seconds(report.dt4)),
    )
    for name, value in lines:
        table.add_row(name, value)
    console.print(table)


def _three(report: Report) -> str:
    colour = "green" if report.clean else "red"
    return f"[{colour}]{report.lost:,} · {report.duplicated:,} · {report.out_of_order:,}[/]"


def _seconds(value: float | None) -> str:
    return "not seen" if value is None else f"{value:.2f} s"
