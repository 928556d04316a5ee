"""The grid by itself on any master, without the report: for tests of where Spark runs.

python -m tests.lab.paper.alone MASTER FOLDER [spark.KEY=VALUE …]
"""

import sys
from pathlib import Path

from lagless.lab.paper import cells, grid
from lagless.lab.paper.experiments import PAPER

SETTING = cells.Setting(measurements=6)
ALGORITHMS = (*PAPER, "ezzeddine")
WANTED = cells.every(ALGORITHMS, (5.0, 25.0), ("random", "zero"), (0, 1), (9,))


def main(master: str, folder: str, *conf: str) -> None:
    """Work through the grid, and keep its rows in the folder."""
    with grid.opened(master, ALGORITHMS, grid.settings(conf)) as spark:
        grid.run(spark, WANTED, SETTING, Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
