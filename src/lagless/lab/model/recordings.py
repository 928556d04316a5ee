"""What a monitor published, as a stream: one row each `step` seconds, whatever its own pace was."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from lagless import messages
from lagless.errors import WrongInput
from lagless.lab.model.streams import Stream
from lagless.messages import WriteSpeeds
from lagless.model import Speeds, TopicPartition


@dataclass(frozen=True, slots=True)
class Recording:
    """A stream, and how much of the time is missing from it."""

    stream: Stream
    step: float
    missing: float
    """Seconds in which nothing was published: they are left out."""


Moment = tuple[float, Speeds]
"""When speeds were measured, and the speeds."""


def gather(published: Iterable[WriteSpeeds], step: float, patience: float) -> Recording:
    """Put what a monitor published on a grid, as `grid` does."""
    moments = ((message.at, messages.flatten(message.speeds)) for message in published)
    return grid(moments, step, patience)


def grid(measured: Iterable[Moment], step: float, patience: float) -> Recording:
    """Put measurements on a grid: each row is the newest measurement of its time.

    A pause of more than `patience` seconds is left out. A partition that is not there has speed 0.
    """
    rows: list[Speeds] = []
    begin, missing = -np.inf, 0.0
    newest: Moment | None = None
    for moment in measured:
        at = moment[0]
        if newest is not None and at <= newest[0]:
            continue  # sent twice, or by a monitor that was about to be replaced
        if newest is None or at - newest[0] > patience:
            if newest is not None:
                rows.append(newest[1])
                missing += at - newest[0]
            begin = at
        while newest is not None and begin + step <= at:
            rows.append(newest[1])
            begin += step
        newest = moment
    if newest is not None:
        rows.append(newest[1])
    if len(rows) < 2:
        raise WrongInput(
            f"a replay needs measurements of {step:g} s or more, and there are {len(rows)}"
        )
    names: list[TopicPartition] = sorted({p for row in rows for p in row})
    speeds = np.array([[row.get(p, 0.0) for p in names] for row in rows])
    return Recording(Stream(tuple(map(str, names)), speeds), step, missing)
