"""How long a moved partition pauses, by the moment at which its new owner claims it.

    python benchmarks/handover.py [--cycle 2.5] [--mail 0.1] [--claim 0.2] [--moves 100000] [--json]

Both owners run cycle after cycle, and the order comes anywhere in them. A pause is from the last
commit of the old owner that has the partition to the first one of the new owner. Three protocols:

- `stop first`: the new owner is ordered after the old one has answered, as lagless does.
- `at once`: both are ordered together, and the new owner's claim fences the old one. What the old
  one reads at that moment is refused, for all of its partitions of the topic, and read again.
- `while reading`: stop first, but the new owner claims while its cycle runs.

The model is in seconds of its own: it does not depend on the machine.
"""

import argparse
import json

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def ends(after: Floats, phase: Floats, cycle: Floats) -> Floats:
    """Return when the cycle ends that runs at a time; one ends at `phase`."""
    return phase + np.ceil((after - phase) / cycle) * cycle


def pauses(cycle: float, mail: float, claim: float, moves: int, seed: int = 0) -> dict[str, Floats]:
    """Return the pauses of many moves under each protocol, and which of them cost a cycle."""
    rng = np.random.default_rng(seed)
    old, new = cycle * rng.uniform(0.7, 1.3, (2, moves))
    old_phase, new_phase = old * rng.random(moves), new * rng.random(moves)
    stopped = ends(np.full(moves, mail), old_phase, old)
    ordered = stopped + 2 * mail
    began = ends(ordered, new_phase, new) + claim
    reading = ends(ordered + claim, new_phase, new)
    fenced = ends(np.full(moves, mail), new_phase, new) + claim
    refused = stopped > fenced
    last = np.where(refused, stopped - old, stopped)
    return {
        "stop first": began + new - stopped,
        "at once": fenced + new - last,
        "while reading": reading + new - stopped,
        "refused": refused.astype(np.float64),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cycle", type=float, default=2.5)
    parser.add_argument("--mail", type=float, default=0.1)
    parser.add_argument("--claim", type=float, default=0.2)
    parser.add_argument("--moves", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = pauses(asked.cycle, asked.mail, asked.claim, asked.moves)
    share = float(found.pop("refused").mean())
    rows = {
        name: {f"p{q}": round(float(np.quantile(values, q / 100)), 2) for q in (10, 50, 90)}
        for name, values in found.items()
    }
    if asked.json:
        print(json.dumps({"pauses": rows, "refused_at_once": round(share, 3)}))
        return
    for name, row in rows.items():
        print(f"{name:14}", *(f"{key} {value:5.2f} s" for key, value in row.items()))
    print(f"at once, {share:.0%} of the moves cost the old owner a cycle")


if __name__ == "__main__":
    main()
