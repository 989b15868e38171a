"""Loops over the arrays of a batch, compiled by numba: which rows leave a window, and what aggregates become.

Importing this module compiles the loops, or loads them from numba's cache on disk; `kernel_library` does it in the
background. Each loop visits the rows in the order in which the row engine visits them and adds in the same order, so
results are equal to the last bit.

Common parameters:

- Rows are numbered by their place in the arrays of a `RowStore`. The rows of the batch are ``first`` up to ``end``;
  those before are retained from earlier batches.
- ``leaving`` has the rows that leave, oldest first. Up to row ``first + i`` those before ``ends[i]`` leave.
- ``groups`` has the number of the group of each row.
- With ``early`` rows leave before an arrival enters (``time``), without it after that (``length``).
- ``movement`` are groups, leaving, ends, first, end and early, in this order.
- Numbers that are ``null`` stand for null: NaN, or a whole number; NaN is equal to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64] | npt.NDArray[np.int64]
Movement = tuple[Integers, Integers, Integers, int, int, bool]
_MOVEMENT = "Tuple((int64[::1], int64[::1], int64[::1], int64, int64, boolean))"
_Function = TypeVar("_Function", bound=Callable[..., Any])


def _compiled(*signatures: str) -> Callable[[_Function], _Function]:
    """Compile a function for these signatures; without one for those of its callers. Numba keeps it on disk, and other
    threads run while it works.
    """
    return cast("Callable[[_Function], _Function]", numba.njit([*signatures] or None, cache=True, nogil=True))


@_compiled("UniTuple(int64, 3)(int64[::1], int64, int64, int64, int64, int64, int64[::1])")
def expire(
    times: Integers, oldest: int, row: int, first: int, span: int, due: int, ends: Integers
) -> tuple[int, int, int]:
    """Find which rows a time window of `span` evicts, from `row` on, until the window's timer is due at `due`.

    Write `ends`, and return the row reached, the oldest row in the window, and when its timer is due. The timer of a
    window that nobody watches is due one span after its oldest row has expired.
    """
    end = first + len(ends)
    while row < end and times[row] < due:
        limit = times[row] - span
        while oldest < row and times[oldest] <= limit:
            oldest += 1
        if oldest == row:
            due = times[row] + 2 * span
        ends[row - first] = oldest
        row += 1
    return row, oldest, due


@_compiled("void(int64[::1], int64, int64, UniTuple(int64[::1], 4), int64[::1], int64[::1])")
def replace_oldest(
    groups: Integers,
    first: int,
    limit: int,
    chains: tuple[Integers, Integers, Integers, Integers],
    left: Integers,
    before: Integers,
) -> None:
    """Find which row of its group each row pushes out of a window of `limit` rows per group, and the row `before` it
    in that window; -1 for none.

    `chains` are the oldest row of each group, its number of rows, its newest row, and for each row the following one of
    the same group.
    """
    oldest, sizes, newest, following = chains
    for row in range(first, first + len(left)):
        group = groups[row]
        before[row - first] = newest[group] if sizes[group] and limit > 1 else -1
        if sizes[group]:
            following[newest[group]] = row
        else:
            oldest[group] = row
        newest[group] = row
        sizes[group] += 1
        left[row - first] = -1
        if sizes[group] > limit:
            left[row - first] = oldest[group]
            oldest[group] = following[oldest[group]]
            sizes[group] -= 1


@_compiled()
def _uncount(groups: Integers, leaving: Integers, at: int, until: int, counts: Integers) -> int:
    """Take the rows in `leaving` from `at` up to `until` out of their groups. Return `until`."""
    while at < until:
        counts[groups[leaving[at]]] -= 1
        at += 1
    return at


@_compiled(f"int64({_MOVEMENT}, boolean, int64[::1], int64[::1], int64, int64[::1])")
def count_rows(
    movement: Movement, keeps_groups: bool, counts: Integers, created: Integers, creations: int, out: Integers
) -> int:
    """Count the rows of each group. Write the count of the arrival's group after each arrival, and return `creations`.

    `created` numbers the groups in the order of their creation. With `keeps_groups` a group stays when its rows have
    left; otherwise it does not exist then.
    """
    groups, leaving, ends, first, end, early = movement
    at = 0
    for row in range(first, end):
        group, until = groups[row], ends[row - first]
        if early:
            at = _uncount(groups, leaving, at, until, counts)
        if counts[group] == 0 and (created[group] < 0 or not keeps_groups):
            created[group] = creations
            creations += 1
        counts[group] += 1
        at = _uncount(groups, leaving, at, until, counts)
        out[row - first] = counts[group]
    return creations


@_compiled()
def _subtract(
    values: Numbers,
    null: float,
    groups: Integers,
    leaving: Integers,
    at: int,
    until: int,
    counts: Integers,
    totals: Numbers,
) -> int:
    """Take the values of the rows in `leaving` from `at` up to `until` out of their groups. Return `until`."""
    while at < until:
        value, group = values[leaving[at]], groups[leaving[at]]
        if value == value and value != null:
            counts[group] -= 1
            if counts[group]:
                totals[group] -= value
            else:
                totals[group] = 0
        at += 1
    return at


@_compiled(
    f"void(float64[::1], float64, {_MOVEMENT}, int64[::1], float64[::1], int64[::1], float64[::1])",
    f"void(int64[::1], int64, {_MOVEMENT}, int64[::1], int64[::1], int64[::1], int64[::1])",
)
def sum_values(
    values: Numbers,
    null: float,
    movement: Movement,
    counts: Integers,
    totals: Numbers,
    out_counts: Integers,
    out_totals: Numbers,
) -> None:
    """Keep number and sum of the values of each group, and write those of the arrival's group after each arrival.

    The sum of a group whose last value leaves is 0 again: it forgets its rounding errors.
    """
    groups, leaving, ends, first, end, early = movement
    at = 0
    for row in range(first, end):
        group, value, until = groups[row], values[row], ends[row - first]
        if early:
            at = _subtract(values, null, groups, leaving, at, until, counts, totals)
        if value == value and value != null:
            counts[group] += 1
            totals[group] += value
        at = _subtract(values, null, groups, leaving, at, until, counts, totals)
        out_counts[row - first] = counts[group]
        out_totals[row - first] = totals[group]


@_compiled(
    f"void(float64[::1], float64, {_MOVEMENT}, boolean, int64[::1], float64[::1], float64[::1])",
    f"void(int64[::1], int64, {_MOVEMENT}, boolean, int64[::1], int64[::1], int64[::1])",
)
def extreme_values(
    values: Numbers,
    null: float,
    movement: Movement,
    greatest: bool,
    counts: Integers,
    best: Numbers,
    out: Numbers,
) -> None:
    """Keep the least or the `greatest` value of each group without a window; `counts` is 0 before the first value."""
    groups, _, _, first, end, _ = movement
    for row in range(first, end):
        group, value = groups[row], values[row]
        if value == value and value != null:
            if counts[group] == 0 or (value > best[group] if greatest else value < best[group]):
                best[group] = value
            counts[group] = 1
        out[row - first] = best[group]


@_compiled()
def _unqueue(
    groups: Integers, leaving: Integers, at: int, until: int, first: int, queues: tuple[Integers, ...], gone: Integers
) -> int:
    """Take the rows in `leaving` from `at` up to `until` out of the queues that begin with them. Return `until`."""
    oldest, newest, following, _ = queues
    while at < until:
        row, group = leaving[at], groups[leaving[at]]
        if oldest[group] == row:
            gone[group] += row < first
            oldest[group] = following[row] if newest[group] != row else -1
        at += 1
    return at


_QUEUES = "UniTuple(int64[::1], 4)"


@_compiled(
    f"void(float64[::1], float64, {_MOVEMENT}, boolean, {_QUEUES}, UniTuple(int64[::1], 2), float64[::1])",
    f"void(int64[::1], int64, {_MOVEMENT}, boolean, {_QUEUES}, UniTuple(int64[::1], 2), int64[::1])",
)
def queue_extremes(
    values: Numbers,
    null: float,
    movement: Movement,
    greatest: bool,
    queues: tuple[Integers, Integers, Integers, Integers],
    gone: tuple[Integers, Integers],
    out: Numbers,
) -> None:
    """Keep for each group the rows with its least value, or its `greatest`, or with one that will be when others have
    left, and write that value of the arrival's group after each arrival; `null` without values.

    `queues` are the oldest of these rows of each group, the newest, and for each row the following and the preceding
    one; -1 for none. `gone` counts by group the rows before `first` that went from the begin and from the end.
    """
    groups, leaving, ends, first, end, early = movement
    oldest, newest, following, preceding = queues
    left, overtaken = gone
    at = 0
    for row in range(first, end):
        group, value, until = groups[row], values[row], ends[row - first]
        if early:
            at = _unqueue(groups, leaving, at, until, first, queues, left)
        if value == value and value != null:
            while oldest[group] >= 0:
                last = newest[group]
                if not (values[last] < value if greatest else values[last] > value):
                    break
                overtaken[group] += last < first
                newest[group] = preceding[last]
                if oldest[group] == last:
                    oldest[group] = -1
            if oldest[group] < 0:
                oldest[group], preceding[row] = row, -1
            else:
                following[newest[group]], preceding[row] = row, newest[group]
            newest[group] = row
        at = _unqueue(groups, leaving, at, until, first, queues, left)
        out[row - first] = values[oldest[group]] if oldest[group] >= 0 else values[row]


@_compiled("void(int64[::1], int64[::1], int64[::1], int64[::1], int64, int64[::1], int64[::1])")
def queued_rows(
    numbers: Integers,
    oldest: Integers,
    newest: Integers,
    preceding: Integers,
    first: int,
    ends: Integers,
    out: Integers,
) -> None:
    """Write the rows from `first` on in the queues of the groups `numbers`, and where those of each group end."""
    at = 0
    for place in range(len(numbers)):
        group, begin = numbers[place], at
        row = newest[group] if oldest[group] >= 0 else -1
        while row >= first:
            out[at] = row
            at += 1
            row = preceding[row] if row != oldest[group] else -1
        out[begin:at] = out[begin:at][::-1].copy()
        ends[place] = at


@_compiled("UniTuple(int64, 2)(int64[:, ::1], int64[::1], int64[::1], int64[::1], int64, int64, int64[::1])")
def follow_states(
    table: Integers, accepted: Integers, bounds: Integers, begun: Integers, number: int, place: int, states: Integers
) -> tuple[int, int]:
    """Write the `states` of partitions of `match_recognize` behind each row, from partition `number` and a place in it
    on (see `RowMatches`). Return the partition and the place where ``table[state, accepted]`` has no state yet.
    """
    while number < len(begun):
        state = begun[number] if place == bounds[number] else states[place - 1]
        while place < bounds[number + 1]:
            state = table[state, accepted[place]]
            if state < 0:
                return number, place
            states[place] = state
            place += 1
        number += 1
    return number, place
