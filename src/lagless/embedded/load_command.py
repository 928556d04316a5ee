"""The load as a process of its own: `python -m lagless.embedded.load …`."""

import argparse
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import numpy as np

from lagless.embedded import flows
from lagless.embedded.load import Load
from lagless.embedded.records import Sizes
from lagless.errors import LaglessError, WrongInput


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a load until its time is up or SIGTERM, and print its tally as JSON."""
    try:
        given = _parser().parse_args(arguments)
        load = Load(
            given.bootstrap,
            _flow(given),
            sizes=_sizes(given.sizes),
            compression=given.compression,
            seed=given.seed,
            tally=given.tally,
            spoil_every=given.spoil_every,
        )

        def end(number: int, frame: FrameType | None) -> None:
            load.ask_to_stop()

        signal.signal(signal.SIGTERM, end)
        signal.signal(signal.SIGINT, end)
        print(json.dumps(load.run(given.seconds).report()), flush=True)
    except LaglessError as error:
        print(f"lagless: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, WrongInput) else 1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m lagless.embedded.load", description=main.__doc__)
    add = parser.add_argument
    add("--bootstrap", required=True, metavar="HOST:PORT")
    add("--topic", action="append", default=[], metavar="NAME:PARTITIONS", help="may be repeated")
    kinds = ("steady", "walk", "skewed", "spike", "replay")
    add("--flow", choices=kinds, default="steady", help="how speeds change")
    add("--speed", type=float, default=1e6, help="bytes/s: each partition's, skewed: of all")
    add("--capacity", type=float, default=1e6, help="walk: C in bytes/s, the most of a partition")
    add("--delta", type=float, default=10.0, help="walk: percent of C per step")
    add("--start", choices=("random", "zero", "half", "full"), default="random", help="walk")
    add("--rows", type=int, default=1000, help="walk: steps before it begins anew")
    add("--step", type=float, default=1.0, help="seconds of a step")
    add("--exponent", type=float, default=1.0, help="skewed: of Zipf's law")
    add("--factor", type=float, default=5.0, help="spike: how many times as fast")
    add("--quiet", type=int, default=60, help="spike: steps before it")
    add("--high", type=int, default=30, help="spike: steps of it")
    add("--share", type=float, default=1.0, help="spike: of the partitions")
    add("--file", type=Path, help="replay: CSV with TOPIC:NUMBER in the header")
    add("--sizes", default="fixed:500", metavar="KIND:MEAN[:SPREAD]", help="of records, in bytes")
    add("--compression", default="none", choices=("none", "gzip", "snappy", "lz4", "zstd"))
    add("--seed", type=int, default=0)
    add("--seconds", type=float, help="until SIGTERM if not given")
    add("--tally", type=Path, help="file that says, every second, what was produced")
    add("--spoil-every", type=int, default=0, metavar="N", help="make each N-th record no JSON")
    return parser


def _flow(given: argparse.Namespace) -> flows.Flow:
    if given.flow == "replay":
        if given.file is None:
            raise WrongInput("--flow replay needs --file with the speeds")
        return flows.replay(given.file, given.step)
    partitions = flows.spread(dict(_topic(text) for text in given.topic))
    if not partitions:
        raise WrongInput("a load needs topics: --topic NAME:PARTITIONS")
    match given.flow:
        case "walk":
            rng = np.random.default_rng(given.seed)
            return flows.walk(
                partitions,
                given.capacity,
                given.delta,
                given.rows,
                rng,
                step=given.step,
                start=given.start,
            )
        case "skewed":
            return flows.skewed(partitions, given.speed, given.exponent)
        case "spike":
            return flows.spike(
                partitions,
                given.speed,
                given.factor,
                quiet=given.quiet,
                high=given.high,
                share=given.share,
                step=given.step,
            )
    return flows.steady(partitions, given.speed)


def _topic(text: str) -> tuple[str, int]:
    name, _, count = text.rpartition(":")
    if not name or not count.isdigit() or int(count) < 1:
        raise WrongInput(f"--topic takes NAME:PARTITIONS, not {text!r}")
    return name, int(count)


def _sizes(text: str) -> Sizes:
    kind, *numbers = text.split(":")
    try:
        mean, *spread = map(float, numbers)
        return Sizes(kind, int(mean), *spread)  # type: ignore[arg-type]  # Sizes checks the kind
    except (ValueError, TypeError) as error:
        if isinstance(error, WrongInput):
            raise
        raise WrongInput(f"--sizes takes KIND:MEAN[:SPREAD], not {text!r}") from error
