"""Measure the load generator: MB/s that it holds and the cores that it takes for it.

Run as `python benchmarks/load.py [--mb 20] [--seconds 20]`. It starts a broker of its own.
"""

import argparse
import resource

from lagless.lab.load import flows, records
from lagless.lab.load.load import Load
from lagless.lab.load.records import Sizes
from lagless.lab.parts.broker import Broker


def processor() -> float:
    """Return the seconds of processor time that this process has taken, all threads together."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print one line per setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=float, default=20.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--partitions", type=int, default=8)
    given = parser.parse_args()
    with Broker() as broker:
        for size in (200, 500, 2000):
            for compression in ("none", "lz4"):
                parts = flows.spread({f"bench-{size}-{compression}": given.partitions})
                flow = flows.steady(parts, given.mb * 1e6 / len(parts))
                load = Load(broker.bootstrap, flow, sizes=Sizes(mean=size), compression=compression)
                before = processor()
                tally = load.run(given.seconds)
                used, took = processor() - before, tally.seconds
                wrong = records.compare(broker.bootstrap, tally)
                print(
                    f"{size:5d} B {compression:4s}: {tally.bytes / took / 1e6:5.1f} MB/s, "
                    f"{tally.records / took:7.0f} records/s, {used / took:4.2f} cores, "
                    f"{wrong or 'exact'}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
