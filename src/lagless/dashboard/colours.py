"""Colours: a hue per topic, a tone per partition, the same wherever a partition appears. Pure.

People with any kind of colour vision can tell these hues apart (Okabe and Ito). Colour never
stands alone: each block carries its name too.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import cycle

from lagless.model import TopicPartition

_HUES = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00")
_TONES = (0.0, 0.42, 0.2, 0.58)
"""Fraction of white in the tones of consecutive partitions."""


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of everything but partitions."""

    text: str
    muted: str
    line: str
    surface: str
    ground: str
    accent: str
    good: str
    warn: str
    bad: str
    lines: tuple[str, ...]
    """For the lines of consumers, in turn."""


LIGHT = Theme(
    text="#1b2430", muted="#5a6675", line="#e3e7ec", surface="#ffffff", ground="#f4f6f8",
    accent="#0a5ea8", good="#0b7a53", warn="#8a5a00", bad="#b3261e",
    lines=("#0072B2", "#B84E00", "#00805D", "#A8427E", "#8A6100", "#2F7FB5"),
)  # fmt: skip
DARK = Theme(
    text="#e8edf3", muted="#9fadbd", line="#2a3442", surface="#161d27", ground="#10161e",
    accent="#6cb6ff", good="#4cc38a", warn="#f0b429", bad="#ff8a80",
    lines=("#6CB6FF", "#FF9B52", "#3FCFA0", "#F09CCB", "#F0C14B", "#A7D8FF"),
)  # fmt: skip


def of_partitions(partitions: Iterable[TopicPartition]) -> dict[TopicPartition, str]:
    """Return the colour of each partition, which depends on the set of topics."""
    known = sorted(set(partitions))
    hue = of_topics(known)
    return {
        partition: _lighter(hue[partition.topic], _TONES[partition.partition % len(_TONES)])
        for partition in known
    }


def of_topics(partitions: Iterable[TopicPartition]) -> dict[str, str]:
    """Return the hue of each topic."""
    return dict(zip(sorted({partition.topic for partition in partitions}), cycle(_HUES)))


def on(colour: str) -> str:
    """Return black or white, whichever is easier to read on a colour."""
    return max(("#000000", "#ffffff"), key=lambda ink: contrast(ink, colour))


def contrast(ink: str, ground: str) -> float:
    """Return the contrast of two colours as WCAG 2 defines it, from 1 to 21."""
    low, high = sorted((_luminance(ink), _luminance(ground)))
    return (high + 0.05) / (low + 0.05)


def _luminance(colour: str) -> float:
    parts = (part / 255 for part in bytes.fromhex(colour[1:]))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _lighter(colour: str, white: float) -> str:
    parts = bytes.fromhex(colour[1:])
    return "#" + bytes(round(part + (255 - part) * white) for part in parts).hex()
