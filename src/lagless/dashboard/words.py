"""Numbers as people read them: with a unit, and no more digits than they mean."""

DASH = "–"
_UNITS = (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3))


def size(count: float) -> str:
    """Write bytes: 1.25 MB."""
    for unit, factor in _UNITS:
        if abs(count) >= factor:
            return f"{_three(count / factor)} {unit}"
    return f"{count:.0f} B"


def rate(speed: float) -> str:
    """Write bytes per second: 1.25 MB/s."""
    return f"{size(speed)}/s"


def duration(seconds: float | None) -> str:
    """Write a duration: 80 ms, 4.2 s, 3 min 20 s, 2 h 5 min."""
    if seconds is None:
        return DASH
    if seconds < 0.0005:
        return "0 s"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 119.5:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 120:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def age(seconds: float) -> str:
    """Write for how long something has been so, in whole seconds."""
    return duration(round(max(0.0, seconds))).replace(".0 s", " s")


def share(part: float, whole: float) -> str:
    """Write a part as a percentage of the whole."""
    return f"{100 * part / whole:.0f} %" if whole > 0 else DASH


def count(number: int, noun: str) -> str:
    """Write how many there are: 1 consumer, 2 consumers."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}".replace(",", " ")


def waiting(held: float, records: int) -> str:
    """Write what is to be read; a consumer that has read nothing yet knows no sizes."""
    told = count(records, "record")
    return told if records and not held else f"{size(held)}, {told}"


def scale(largest: float) -> tuple[str, float]:
    """Choose the unit of an axis whose largest value this is, and its factor in bytes/s."""
    for unit, factor in _UNITS:
        if largest >= factor:
            return f"{unit}/s", float(factor)
    return "B/s", 1.0


def _three(number: float) -> str:
    """Write three significant digits, as 1.25, 12.5 and 125 are."""
    places = 2 if abs(number) < 9.995 else 1 if abs(number) < 99.95 else 0
    return f"{number:.{places}f}"
