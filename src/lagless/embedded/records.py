"""Records of the load: JSON that says where and when it was produced, padded to a size."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from lagless.errors import WrongInput
from lagless.model import TopicPartition

SCHEMA = "topic string, partition int, seq bigint, at double, pad string"
"""The records' schema, as Spark takes it; `at` is in seconds since 1970."""

OVERHEAD = 10
"""Bytes that Kafka's log adds to a record of this kind."""

SMALLEST, LARGEST = 100, 900_000
"""Bytes of a value: room for what it says, and what brokers take by default."""

Kind: TypeAlias = Literal["fixed", "uniform", "lognormal"]

_DRAWN = 4096
_POOL = 1 << 16


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large values are, in bytes.

    `spread` is, for uniform, how far from the mean as a fraction of it; for lognormal, the σ of
    the logarithm.
    """

    kind: Kind = "fixed"
    mean: int = 500
    spread: float = 0.5

    def __post_init__(self) -> None:
        if self.kind not in ("fixed", "uniform", "lognormal"):
            raise WrongInput(f"sizes are fixed, uniform or lognormal, not {self.kind!r}")
        if not SMALLEST <= self.mean <= LARGEST:
            raise WrongInput(
                f"records are {SMALLEST} to {LARGEST} bytes large on average, not {self.mean}"
            )
        if not self.spread >= 0 or (self.kind == "uniform" and self.spread > 1):
            raise WrongInput(f"the spread of sizes is 0 or more (uniform: to 1), not {self.spread}")

    def draw(self, rng: np.random.Generator, count: int = _DRAWN) -> list[int]:
        """Draw sizes, kept within what a record needs and a broker takes."""
        match self.kind:
            case "fixed":
                drawn = np.full(count, float(self.mean))
            case "uniform":
                drawn = self.mean * rng.uniform(1 - self.spread, 1 + self.spread, count)
            case "lognormal":
                # exp(μ + σ²/2) is the mean of a lognormal distribution.
                drawn = rng.lognormal(np.log(self.mean) - self.spread**2 / 2, self.spread, count)
        return [int(size) for size in np.clip(np.rint(drawn), SMALLEST, LARGEST)]


class Press:
    """Prints the values of one partition; everything but the numbers is prepared."""

    def __init__(self, partition: TopicPartition, sizes: list[int], pool: bytes) -> None:
        self._head = f'{{"topic":"{partition.topic}","partition":{partition.partition},"seq":'
        self._form = self._head.encode() + b'%d,"at":%b,"pad":"%b"}'
        self._fixed = len(self._form) - len("%d%b%b")
        self._sizes = sizes
        self._pool = pool

    def print(
        self, first: int, budget: float, at: float, spoil_every: int = 0
    ) -> tuple[list[bytes], float]:
        """Print values from a sequence number on while the budget lasts; return what is left.

        With `spoil_every` n, each n-th value is cut off in the middle, so that it is no JSON.
        """
        values: list[bytes] = []
        form, sizes, pool, count = self._form, self._sizes, self._pool, len(self._sizes)
        time = b"%.3f" % at
        fixed = self._fixed + len(time)
        seq = first
        while True:
            size = sizes[seq % count]
            if budget < size + OVERHEAD:
                return values, budget
            budget -= size + OVERHEAD
            start = seq * 61 % _POOL
            value = form % (seq, time, pool[start : start + size - fixed - len(str(seq))])
            if spoil_every and seq % spoil_every == spoil_every - 1:
                value = value[: len(value) // 2]
            values.append(value)
            seq += 1


def pool(sizes: list[int], rng: np.random.Generator) -> bytes:
    """Return letters to pad with, enough for the largest record at any start."""
    letters = np.frombuffer(
        b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/", "u1"
    )
    return letters[rng.integers(0, len(letters), _POOL + max(sizes))].tobytes()
