"""For each guard of `tests.controller.guards`: faults with which the search misses it."""

import logging
from typing import NamedTuple

from tests.controller import guards
from tests.exhaustive import story
from tests.exhaustive.moves import Moves
from tests.exhaustive.search import Result, search


class Witness(NamedTuple):
    """Where a search finds a guard missing."""

    faults: dict[str, int]
    is_cold: bool = False
    """From before anything runs, and not from the first rest."""


STATES = 6000
"""How many states are looked at for a shorter story than the first."""
LOAD = {"load": 1}
WITNESSES = {
    "a start waits for the stop's receipt": Witness(LOAD),
    "late news is ignored": Witness({"late": 1, **LOAD}),
    "orders are repeated": Witness({"lose": 1, **LOAD}),
    "a contradiction synchronizes": Witness({"stranger": 1}, is_cold=True),
    "nothing moves before all have reported": Witness({"kill": 1}),
    "a change of mind is a new generation": Witness(LOAD),
    "silence counts only while the mailbox is heard": Witness({"freeze": 1}),
    "an incarnation that is over is not heard": Witness({"late": 1, **LOAD}),
    "a consumer with work is not deleted": Witness(LOAD),
    "what is decided is persisted": Witness({"kill": 1}),
    "a consumer that never starts is given up": Witness({"pause": 1}, is_cold=True),
    "older orders are ignored": Witness({"repeat": 1, **LOAD}, is_cold=True),
    "orders for other incarnations are ignored": Witness({"restart": 1, **LOAD}),
    "a newer order drops what older ones wanted": Witness({"refuse": 2, "kill": 1, "load": 2}),
    "a partition is claimed before it is read": Witness(LOAD),
    "a receipt waits for the claims": Witness({"refuse": 1, **LOAD}),
    "the state is persisted before the receipt": Witness(LOAD),
    "a partition that another claimed is dropped": Witness({"stranger": 1}),
    "a new incarnation holds nothing": Witness({"restart": 1}),
    "each change is a new revision": Witness({"late": 1, **LOAD}),
    "no offset is carried over from cycle to cycle": Witness({"answer": 1}),
    "what was begun ahead is read only if it fits": Witness({"stranger": 1, **LOAD}),
    "a look tells that another owns the partition": Witness({"stranger": 1}),
    "a claim is refused if the owner is newer": Witness({"stranger": 2, **LOAD}),
    "the lake compares before it sets": Witness({"stranger": 1}),
}
UNREACHED = {
    "a stop is confirmed under its generation": (
        "a consumer has to be ordered to stop a partition whose start is on its way; no such "
        "path was found in the first 100,000 states with late=2,load=2, with late,lose,load=2 and "
        "with crash,late,load"
    ),
    "a spare is kept": "the world has room for two consumers, and a spare would be a third",
    "a consumer that waits is not lost": (
        "a rule about time: in this world no consumer waits for Spark, and only one that hangs or "
        "has died is silent for too long"
    ),
}
"""Guards that the search does not miss, and why."""


def find(guard: guards.Guard, states: int) -> tuple[Result, str]:
    """Search without a guard, and return what was found and its story."""
    witness = WITNESSES[guard.name]
    with guards.without(guard):
        result = search(Moves(witness.faults), states=states, is_cold=witness.is_cold)
        return result, story.tell(result, witness.faults) if result.wrong else ""


def main() -> None:
    """Print a line for each guard."""
    logging.disable()
    print("| guard left out | faults | moves | states | what goes wrong |")
    print("| --- | --- | ---: | ---: | --- |")
    for guard in guards.GUARDS:
        if guard.name in UNREACHED:
            print(f"| {guard.name} | | | | not reached |", flush=True)
            continue
        result, _ = find(guard, STATES)
        faults = ", ".join(n for n, k in WITNESSES[guard.name].faults.items() for _ in range(k))
        more = "" if result.is_shortest else " at most"
        print(
            f"| {guard.name} | {faults} | {len(result.story)}{more} | {result.states:,} "
            f"| {result.wrong} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
