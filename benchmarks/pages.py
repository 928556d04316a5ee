"""Fill the pages of results, and say which show the results of other code.

    python benchmarks/pages.py show         each page's fingerprint, and the code's
    python benchmarks/pages.py paper DIR    docs/paper.md, the results in docs/evaluation.md and
                                            their figures, from a folder of `evaluate paper`
    python benchmarks/pages.py members DIR  members that lagless did not write, in docs/results.md
                                            and README.md, from a folder of `evaluate live`

`benchmarks/sticky.py all` fills docs/sticky.md. Every page says by which command, with which
version and on which day it was made; `tests/lab/paper/test_fingerprints.py` fails when the code
gives other results than a page shows.
"""

import argparse
import shutil
from pathlib import Path

from lagless.lab.live import foreign_findings, journal, live_report
from lagless.lab.paper import figures, fingerprints

DOCS = Path(__file__).parent.parent / "docs"
RESULTS = "results"
MEMBERS = "members"


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


def members(folder: Path) -> None:
    """Fill the places of members that lagless did not write, and copy their figures."""
    data = journal.read(folder / "members.json")
    if not data["complete"]:
        raise SystemExit(f"{folder / 'members.json'} is not complete: run the command again")
    links = []
    for name in ("members-delay", "members-consumers"):
        if (drawn := folder / "figures" / f"{name}.svg").exists():
            shutil.copy(drawn, DOCS / "img" / f"live-{name}.svg")
            links.append(f"![{live_report.CAPTIONS[name]}](img/live-{name}.svg)")
    fill(DOCS / "results.md", MEMBERS, f"\n{foreign_findings.page(data, links)}\n")
    fill(DOCS.parent / "README.md", MEMBERS, f"\n{foreign_findings.front(data)}\n")


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
    parser.add_argument("what", choices=["show", "paper", "members"])
    parser.add_argument("folder", type=Path, nargs="?")
    asked = parser.parse_args()
    if asked.what == "show":
        show()
    elif asked.folder is None:
        parser.error(f"{asked.what} needs the folder of `lagless evaluate … --out`")
    else:
        {"paper": paper, "members": members}[asked.what](asked.folder)


if __name__ == "__main__":
    main()
