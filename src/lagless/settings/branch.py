"""The base of every branch of the tree."""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

MetricsPort = Annotated[
    int | None, Field(ge=0, le=65535, description="Port for /metrics and /health; off by default.")
]


def like(pattern: str, expected: str) -> AfterValidator:
    """Return a validator that refuses texts that do not match a pattern, and says what would."""

    def check(value: str | None) -> str | None:
        if value is not None and not re.fullmatch(pattern, value):
            raise ValueError(f"is {value!r} and should be {expected}")
        return value

    return AfterValidator(check)


def listed(value: Any) -> Any:
    """Return the entries of a list that was written as text, with commas between them."""
    return [entry.strip() for entry in value.split(",")] if isinstance(value, str) else value


class Branch(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, use_attribute_docstrings=True
    )

    def _check(self, right: bool, field: str, relation: str, other: str, unit: str = "") -> None:
        """Raise ValueError unless two fields are in the right relation."""
        if not right:
            value, limit = (f"{getattr(self, name):.15g}{unit}" for name in (field, other))
            raise ValueError(f"{field} is {value} and should be {relation} {other}, {limit}")
