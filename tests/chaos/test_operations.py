"""The account of what resets asked for: it finds what nobody asked for, and nothing else."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.chaos.operations import Expected, Rows, follow, judge

FINE = {"lost": 0, "duplicated": 0, "out_of_order": 0}
ID = "group/topic/id/0"

steps = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.integers(1, 20)),
        st.tuples(st.sampled_from(["keep", "remove"]), st.integers(0, 60)),
    ),
    max_size=12,
)


def history(drawn: list[tuple[str, int]]) -> tuple[Expected, Rows, int]:
    """Do what consumers and resets do, and return what the log says and what the table has."""
    log, at, end = [], 0, 0
    there: list[int] = []
    rows = Rows()
    for version, (kind, number) in enumerate(drawn):
        if kind == "read":
            own = np.arange(at, at + number)
            rows.written[version].append(own)
            there += own.tolist()
            at += number
            ids = {ID: at, f"{ID}/owner": 1}
        else:
            at = min(number, end)
            ids = {ID: at, f"{ID}/owner": 2, f"{ID}/reset": version}
            if kind == "remove":
                there = [offset for offset in there if offset < at]
                ids[f"{ID}/void"] = at
        end = max(end, at)
        log.append((version, ids))
    rows.listed.append(np.array(there, np.int64))
    return follow(iter(log)).get(0, Expected()), rows, at


@given(steps)
def test_whatever_is_reset_a_table_that_follows_its_log_is_right(
    drawn: list[tuple[str, int]],
) -> None:
    expected, rows, at = history(drawn)
    found = judge(expected, rows, at)
    assert {name: found[name] for name in FINE} == FINE
    assert found["landed"] + found["skipped"] == at


@given(steps, st.data())
def test_a_row_too_many_or_too_few_is_found(
    drawn: list[tuple[str, int]], data: st.DataObject
) -> None:
    expected, rows, at = history([("read", 5), *drawn])
    (there,) = rows.listed
    if not len(there):
        return
    one = data.draw(st.integers(0, len(there) - 1))
    rows.listed[0] = np.append(there, there[one])
    assert judge(expected, rows, at)["duplicated"] == 1
    rows.listed[0] = np.delete(there, one)
    assert judge(expected, rows, max(at, int(there[one]) + 1))["lost"] == 1


def test_what_nobody_read_and_nobody_skipped_is_lost() -> None:
    expected, rows, _ = history([("read", 10)])
    assert judge(expected, rows, 14)["lost"] == 4
    assert judge(Expected(), Rows(), 3)["lost"] == 3


def test_rows_of_an_older_place_after_newer_ones_are_out_of_order() -> None:
    expected, rows, at = history([("read", 10), ("read", 10)])
    rows.written[2] = rows.written.pop(0)
    assert judge(expected, rows, at)["out_of_order"] == 10


def test_an_offset_that_goes_back_by_itself_is_out_of_order() -> None:
    log = [(0, {ID: 10}), (1, {ID: 4})]
    assert judge(follow(iter(log))[0], Rows(listed=[np.arange(10)]), 10)["out_of_order"] == 1
