"""The rights that are asked for are those that the docs list."""

import re
from collections import defaultdict
from pathlib import Path

from lagless.adapters.kafka import rights
from lagless.settings import parse

DOCS = Path(__file__).parents[2] / "docs" / "security.md"


def resource(right: rights.Right) -> str:
    """Name a resource as the docs do."""
    if right.kind == "cluster":
        return "cluster"
    kind = right.kind.replace("-", " ")
    if right.prefixed:
        return f"{kind}s with prefix `{right.name}`"
    return f"{kind} {right.name}" if right.name == "T" else f"{kind} `{right.name}`"


def test_the_docs_list_exactly_the_rights_that_are_needed() -> None:
    settings = parse({"group": "orders", "topics": ["T"], "lake": {"path": "lake"}})
    needed: dict[tuple[str, str], set[str]] = defaultdict(set)
    for right in rights.needed(settings, ["T"]):
        needed[right.role, resource(right)].add(right.operation)
    rows = re.findall(
        r"^\| (monitor|controller|consumer) \| (.+?) \| (.+?) \|$", DOCS.read_text(), re.M
    )
    listed = {(role, thing): set(words.split(", ")) for role, thing, words in rows}
    assert len(rows) == len(listed)
    assert listed == needed


def test_a_right_says_how_to_grant_it() -> None:
    right = rights.Right("topic", "orders.", "Read", "consumer", prefixed=True)
    assert right.command("ann") == (
        "--add --allow-principal User:ann --operation Read --topic orders. "
        "--resource-pattern-type prefixed"
    )
    assert "--cluster" in rights.Right("cluster", "kafka-cluster", "Describe", "monitor").command(
        "x"
    )
