"""Costs of the two ways to run statements through a batch, from which a replay chooses for each batch.

A statement pass has a fixed cost for each statement, however few events there are. An event loop has a fixed cost for
each event, however many statements there are, because the filter index calls only those that an event may pass. Both
deliver the same rows. So the statement pass suits few statements and many events, and the event loop many statements
with selective filters, or few events.

``python benchmarks/replay.py --only costs`` measures the constants: each time is the shortest of several rounds in CPU
time. Those below are of rules with a length window, whose calls cost more than those of plain filters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cepbook.engine.vectorized.column_batch import ColumnBatch, iterate_events

# microseconds
PASS_STATEMENT = 52.0  # a statement pass, for each statement
PASS_TEST = 0.013  # and for each event whose filter columns are tested for a statement
PASS_ROW = 0.26  # and for each event that a statement processes
LOOP_EVENT = 2.1  # an event loop, for each event
LOOP_CALL = 1.6  # and for each statement that is called
_SAMPLE = 16  # events whose calls are counted


def event_loop_pays(
    batches: Sequence[ColumnBatch], statements: int, calls: Callable[[str, dict[str, object]], int]
) -> bool:
    """Return whether an event loop is the cheaper way to run `statements` statements through `batches`.

    ``calls(type, event)`` returns how many statements an event is passed to.
    """
    count = sum(len(batch.times) for batch in batches)
    columns, loop = statements * (PASS_STATEMENT + count * PASS_TEST), count * LOOP_EVENT
    if columns <= loop:
        return False  # whatever is called: a call costs more than a row
    called = sum(len(batch.times) * _mean_calls(batch, calls) for batch in batches if batch.times)
    return loop + called * LOOP_CALL < columns + called * PASS_ROW


def _mean_calls(batch: ColumnBatch, calls: Callable[[str, dict[str, object]], int]) -> float:
    step = max(1, len(batch.times) // _SAMPLE)
    columns = {name: values[::step] for name, values in batch.columns.items()}
    counts = [calls(batch.type, event) for event in iterate_events(columns, len(batch.times[::step]))]
    return sum(counts) / len(counts)
