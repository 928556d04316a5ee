"""Search every state of the small world and print how many there were.

python -m tests.exhaustive                          each fault once, on its own
python -m tests.exhaustive --faults crash,late,load=2|all [--depth N] [--states N] [--cold] [--calm]
python -m tests.exhaustive --pairs                  every two faults together
python -m tests.exhaustive --faults late,load --without "late news is ignored"
                                                    the shortest story without a guard
python -m tests.exhaustive.witnesses                every guard, with the faults that need it
"""

import argparse
import itertools
import logging
import sys
from collections.abc import Iterator, Sequence

from tests.controller import guards
from tests.exhaustive import story
from tests.exhaustive.faults import FAULTS
from tests.exhaustive.moves import Moves
from tests.exhaustive.search import Result, search


def parse(text: str) -> dict[str, int]:
    """Return how often each fault may happen: "crash,load=2", or each once: "all"."""
    if text == "all":
        return dict.fromkeys(FAULTS, 1)
    faults = {}
    for part in filter(None, text.split(",")):
        name, _, count = part.partition("=")
        if name not in FAULTS:
            raise SystemExit(f"{name} is not a fault; these are: {', '.join(FAULTS)}")
        faults[name] = int(count or 1)
    return faults


def _sets(asked: argparse.Namespace) -> Iterator[dict[str, int]]:
    if asked.faults is not None:
        yield parse(asked.faults)
    elif asked.pairs:
        for pair in itertools.combinations(FAULTS, 2):
            yield dict.fromkeys(pair, 1)
    else:
        for fault in FAULTS:
            yield {fault: 1}


def row(faults: dict[str, int], result: Result) -> str:
    """Return a line of the table."""
    names = (
        "all"
        if faults == dict.fromkeys(FAULTS, 1)
        else ", ".join(n if k == 1 else f"{n} × {k}" for n, k in faults.items()) or "none"
    )
    extent = "ended" if result.wrong else "complete" if result.is_complete else "cut off"
    return (
        f"| {names} | {result.states:,} | {result.moves:,} | {result.depth} | {extent} | "
        f"{result.rests} | {result.seconds:.0f} | {result.wrong or 'nothing'} |"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Search, and print a line for each set of faults."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", help="which may happen, and how often: crash,load=2")
    parser.add_argument("--pairs", action="store_true", help="every two faults together")
    parser.add_argument("--depth", type=int, help="moves at most")
    parser.add_argument("--states", type=int, help="stop at the first level beyond so many states")
    parser.add_argument("--cold", action="store_true", help="begin before anything runs")
    parser.add_argument("--calm", action="store_true", help="begin with one consumer, not two")
    parser.add_argument("--without", help="a guard of tests/controller/guards.py to take out")
    parser.add_argument("--verbose", action="store_true", help="tell of every level")
    asked = parser.parse_args(arguments)
    logging.disable()
    print("| faults | states | moves | depth | search | rests | seconds | wrong |")
    print("| --- | ---: | ---: | ---: | --- | ---: | ---: | --- |", flush=True)
    wrong = 0
    for faults in _sets(asked):
        wrong += _run(faults, asked)
    return 1 if wrong else 0


def _run(faults: dict[str, int], asked: argparse.Namespace) -> bool:
    def run() -> Result:
        return search(
            Moves(faults),
            depth=asked.depth,
            states=asked.states,
            busy=not asked.calm,
            is_cold=asked.cold,
            told=lambda text: print(text, file=sys.stderr, flush=True) if asked.verbose else None,
        )

    def told(result: Result) -> None:
        print(row(faults, result), flush=True)
        if result.wrong:
            print(story.tell(result, faults, busy=not asked.calm), flush=True)

    if not asked.without:
        result = run()
        told(result)
    else:
        guard = next(g for g in guards.GUARDS if g.name == asked.without)
        with guards.without(guard):
            result = run()
            told(result)
    return bool(result.wrong)


if __name__ == "__main__":
    sys.exit(main())
