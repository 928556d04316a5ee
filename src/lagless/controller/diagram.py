"""The state diagram of the docs, made from the machine's table of transitions.

As a command: python -m lagless.controller.diagram FILE, which writes it between the marks in FILE.
"""

import sys
from pathlib import Path

from lagless.controller.facts import Phase
from lagless.controller.machine import TRANSITIONS

BEGIN, END = "<!-- diagram -->", "<!-- /diagram -->"


def mermaid() -> str:
    """Draw the table as Mermaid; causes with the same way share an arrow."""
    ways: dict[tuple[Phase, Phase], list[str]] = {}
    for (phase, cause), after in TRANSITIONS.items():
        ways.setdefault((phase, after), []).append(cause)
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {_name(Phase.SYNCHRONIZE)}"]
    for (phase, after), causes in ways.items():
        label = "<br/>".join(causes)
        lines.append(f"    {_name(phase)} --> {_name(after)}: {label}")
    return "\n".join([*lines, "```"])


def written(text: str) -> str:
    """Put the diagram between the marks of a text."""
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}\n{mermaid()}\n{END}{tail}"


def _name(phase: Phase) -> str:
    return phase.value.replace(" ", "")


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(written(file.read_text()))
