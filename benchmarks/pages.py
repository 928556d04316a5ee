"""Fill the pages of results, and say which show the results of other code.

    python benchmarks/pages.py show         each page's fingerprint, and the code's
    python benchmarks/pages.py paper DIR    docs/paper.md, the results in docs/evaluation.md and
                                            their figures, from a folder of `evaluate paper`

`benchmarks/sticky.py all` fills docs/sticky.md. Every page says by which command, with which
version and on which day it was made; `tests/lab/paper/test_fingerprints.py` fails when the code
gives other results than a page shows.
"""

import argparse
import shutil
from pathlib import Path

from lagless.lab.paper import figures, fingerprints

DOCS = Path(__file__).parent.parent / "docs"
RESULTS = "results"


def show() -> None:
    """Print what each page carries beside what the code gives."""
    for page in fingerprints.PAGES:
        text = (DOCS / f"{page}.md").read_text("utf-8")
        now, carried = fingerprints.of(page), fingerprints.stamped(text)
        verdict = "current" if carried == (page, now) else "made by other code: make it again"
        print(f"{page}: {carried[1] if carried else 'none'}, {now} now: {verdict}")


def paper(folder: Path) -> None:
    """Copy the page and the figures, and fill the block of the other page."""
    for name in figures.CAPTIONS:
        shutil.copy(folder / "figures" / f"{name}.svg", DOCS / "img" / f"{name}.svg")
    shutil.copy(folder / "docs-paper.md", DOCS / "paper.md")
    block = (folder / "docs-evaluation.md").read_text("utf-8")
    fill(DOCS / "evaluation.md", RESULTS, block)


def fill(page: Path, name: str, text: str) -> None:
    """Replace what is between the marks of a name."""
    head, begin, rest = page.read_text("utf-8").partition(f"<!-- {name} -->\n")
    _, end, tail = rest.partition(f"<!-- /{name} -->")
    if not begin or not end:
        raise SystemExit(f"{page} has no marks <!-- {name} --> and <!-- /{name} -->")
    page.write_text(f"{head}{begin}{text.rstrip()}\n{end}{tail}", "utf-8")


def main() -> None:
    """Do what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("what", choices=["show", "paper"])
    parser.add_argument("folder", type=Path, nargs="?")
    asked = parser.parse_args()
    if asked.what == "show":
        show()
    elif asked.folder is None:
        parser.error("paper needs the folder of `lagless evaluate paper --out`")
    else:
        paper(asked.folder)


if __name__ == "__main__":
    main()
