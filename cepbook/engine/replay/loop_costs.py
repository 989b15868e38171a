"""Costs of the two ways to run statements through a batch, from which a replay chooses for each batch.

A statement pass has a fixed cost for each statement, however few events there are. An event loop has a fixed cost for
each event, however many statements there are, because the filter index calls only those that an event may pass. Both
deliver the same rows. So the statement pass suits few statements and many events, and the event loop many statements
with selective filters, or few events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cepbook.engine.vectorized.column_batch import ColumnBatch, iterate_events

# microseconds
PASS_STATEMENT = 60.0  # a statement pass, for each statement
PASS_TEST = 0.02  # and for each event whose filter columns are tested for a statement
PASS_ROW = 0.5  # and for each event that a statement processes
LOOP_EVENT = 1.5  # an event loop, for each event
LOOP_CALL = 5.0  # and for each statement that is called
_SAMPLE = 16  # events whose calls are counted


def event_loop_pays(
    batches: Sequence[ColumnBatch], statements: int, calls: Callable[[str, dict[str, object]], int]
) -> bool:
    """Return whether an event loop is the cheaper way to run `statements` statements through `batches`.

    ``calls(type, event)`` returns how many statements an event is passed to.
    """
    count = sum(len(batch.times) for batch in batches)
    fixed = statements * PASS_STATEMENT
    if fixed <= count * LOOP_EVENT:
        return False
    called = sum(len(batch.times) * _mean_calls(batch, calls) for batch in batches if batch.times)
    columns = fixed + count * statements * PASS_TEST + called * PASS_ROW
    return count * LOOP_EVENT + called * LOOP_CALL < columns


def _mean_calls(batch: ColumnBatch, calls: Callable[[str, dict[str, object]], int]) -> float:
    step = max(1, len(batch.times) // _SAMPLE)
    columns = {name: values[::step] for name, values in batch.columns.items()}
    counts = [calls(batch.type, event) for event in iterate_events(columns, len(batch.times[::step]))]
    return sum(counts) / len(counts)
