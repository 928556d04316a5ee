"""A claim of the paper, beside what this project measures for it."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["holds", "in part", "does not hold", "see numbers"]


@dataclass(frozen=True, slots=True)
class Claim:
    """What the paper says and where, where the code for it is, and what was measured."""

    place: str
    says: str
    code: str
    measured: str
    verdict: Verdict
