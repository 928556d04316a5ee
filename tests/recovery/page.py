"""The commands of docs/guides/recover.md, by the heading under which they stand."""

import re
from pathlib import Path
from textwrap import dedent

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "recover.md"


def commands() -> dict[str, str]:
    """Return the block of commands of each section that has one."""
    found = {}
    for section in PAGE.read_text().split("\n## ")[1:]:
        heading, _, body = section.partition("\n")
        blocks = re.findall(r"(?:^    .+\n)+", body, re.MULTILINE)
        if blocks:
            (block,) = blocks
            found[heading] = dedent(block)
    return found
