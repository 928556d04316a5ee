"""One cycle of one topic: judge, write, reject, commit."""

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812  (Spark's own habit)

from lagless.adapters.lake import columns, formats, rejects, schemas, transforms, writing
from lagless.adapters.lake.sessions import first_line
from lagless.adapters.lake.statistics import File
from lagless.adapters.lake.work import Place, Work
from lagless.errors import TooMuch, TryAgain
from lagless.ports import Intake
from lagless.settings import TopicSettings

FILE_OFFSETS = 500_000
"""Offsets above which a cycle writes more than one file."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What Spark made of some spans: files that no table lists yet, and what it counted."""

    judged: DataFrame
    files: list[File]
    counts: Mapping[str, Any]
    seconds: float

    def discard(self) -> None:
        """Delete the files of a draft that was never committed."""
        for one in self.files:
            one.path.unlink(missing_ok=True)


def draft(place: Place, work: Work, form: formats.Format, judged: DataFrame) -> Draft:
    """Write the good records; the table's handle is not touched."""
    began = time.perf_counter()
    observation = Observation()
    rows = observed(judged, form, place.settings, observation)
    transformed = transforms.apply(place.transform, place.settings.transform, rows)
    number = max(1, math.ceil(work.offsets / FILE_OFFSETS))
    files = writing.write(transformed, place.table.path, number, work.is_large)
    counts: dict[str, Any] = observation.get
    return Draft(judged, files, counts, time.perf_counter() - began)


def ingest(
    place: Place, work: Work, form: formats.Format, judged: DataFrame, drafted: Draft | None = None
) -> Intake:
    """Write the good records if they are not yet, add the rejects to their table, and commit."""
    try:
        drafted = drafted or draft(place, work, form, judged)
    except PySparkException as error:
        return _find(place, work, form, judged, error)
    files, counts = drafted.files, drafted.counts
    place.seconds["spark"] = drafted.seconds
    try:
        names = counts.get("names")
        if names and schemas.evolve(place.table, form, judged, names):
            place.form = None
            place.table.discard(files)
            return Intake(landed=False, seconds=place.seconds)
        bad = formats.rejects(judged, work.topic.id)
        rejects.add(place.rejected, work, bad, counts["rejected"])
        for file in files:
            columns.fit(place.table, file.schema, place.settings.evolve)
    except BaseException:
        place.table.discard(files)
        raise
    return commit(place, work, files, counts)


def observed(
    judged: DataFrame, form: formats.Format, settings: TopicSettings, observation: Observation
) -> DataFrame:
    """Give the rows of the table, and count every record while they are read.

    The counting also keeps the filter above the parser: below it, Spark would parse twice.
    """
    return formats.rows(_sized(judged, form).observe(observation, *_counts(form, settings)), form)


def commit(place: Place, work: Work, files: list[File], counts: Mapping[str, Any]) -> Intake:
    """Commit files and offsets to the main table, and tell what came of it."""
    began = time.perf_counter()
    landed = place.table.commit(
        files,
        {p: span.first for p, span in work.spans.items()},
        {p: span.until for p, span in work.spans.items()},
        {p: work.generations[p] for p in work.spans},
        work.check,
    )
    place.seconds["commit"] = time.perf_counter() - began
    return Intake(
        rows=sum(file.rows for file in files),
        rejected=counts["rejected"],
        unknown_fields=counts.get("unknown") or 0,
        bytes=counts["bytes"] or 0,
        records=counts["records"],
        seconds=place.seconds,
        landed=landed,
    )


def _find(
    place: Place, work: Work, form: formats.Format, judged: DataFrame, error: PySparkException
) -> Intake:
    """Find the record on which the transform raises, if that is what went wrong."""
    if place.transform is None or isinstance(error, AnalysisException):
        raise error
    rows = formats.rows(judged, form)
    raised = transforms.blame(place.transform, place.settings.transform, rows)
    if raised is None:
        raise TryAgain(f"topic {work.topic.name}: {first_line(error)}") from error
    if work.offsets > 1:
        raise TooMuch(
            f"topic {work.topic.name}: the transform raises on one of {work.offsets} records: "
            f"{first_line(raised)}"
        ) from raised
    reason = F.lit(f"transform: {first_line(raised)}")
    every = judged.withColumn("_reason", F.coalesce("_reason", reason))
    rejected = judged.count()
    rejects.add(place.rejected, work, formats.rejects(every, work.topic.id), rejected)
    return commit(place, work, [], {"rejected": rejected, "records": rejected, "bytes": 0})


def _sized(judged: DataFrame, form: formats.Format) -> DataFrame:
    """Add what is counted as numbers: counting is not compiled, and the value need not go on."""
    size = [F.coalesce(F.octet_length(name), F.lit(0)) for name in ("value", "key")]
    numbers = {"_size": size[0] + size[1], "_bad": F.col("_reason").isNotNull().cast("int")}
    if form.kind == "json":
        numbers["_strange"] = F.size("_unknown")
    return judged.withColumns(numbers)


def _counts(form: formats.Format, settings: TopicSettings) -> list[Column]:
    counts = [
        F.count(F.lit(1)).alias("records"),
        F.coalesce(F.sum("_bad"), F.lit(0)).alias("rejected"),
        F.sum("_size").alias("bytes"),
    ]
    if form.kind == "json":
        counts.append(F.sum("_strange").alias("unknown"))
        if settings.evolve:
            unknown = F.col("_unknown")
            counts.append(F.collect_set(F.when(F.size(unknown) > 0, unknown)).alias("names"))
    return counts
