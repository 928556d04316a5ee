"""The grid by itself on any master, without the report: for tests of where Spark runs.

python -m tests.evaluation.alone MASTER FOLDER [spark.KEY=VALUE …]
"""

import sys
from pathlib import Path

from lagless.evaluation import cells, grid, sessions
from lagless.evaluation.experiments import PAPER

SETTING = cells.Setting(measurements=6)
ALGORITHMS = (*PAPER, "ezzeddine")
WANTED = cells.every(ALGORITHMS, (5.0, 25.0), ("random", "zero"), (0, 1), (9,))


def main(master: str, folder: str, *conf: str) -> None:
    """Work through the grid, and keep its rows in the folder."""
    with sessions.opened(master, ALGORITHMS, sessions.settings(conf)) as spark:
        grid.run(spark, WANTED, SETTING, Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
