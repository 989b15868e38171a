"""The rows that a statement delivered at one instant, and those of its rerun.

A rerun over an incomplete log begins with empty windows and patterns. It is trusted where it delivers what the
statement has delivered.
"""

from __future__ import annotations

from dataclasses import replace

from cepbook.engine.delivery.delta import Row
from cepbook.feeds import Feed
from cepbook.session.explain.explanations import MAX_ROWS, StatementOutcome
from cepbook.session.history.rerun_provenance import ProvenanceRerun, matches_row

InstantRows = list[tuple[bool, Row]]  # each with True for an insert row
OTHER_ROWS = "the statement delivered other rows at this time, which depend on what came before"
COPY = "a copy of the workbench, to which the event was sent, delivers"


def checked_outcome(run: ProvenanceRerun, outcome: StatementOutcome, time: int, feed: Feed | None) -> StatementOutcome:
    """Return an `outcome` of an event of `time` (clock units). It is ``not known`` if `run`, which has not begun,
    delivers other rows at this time than `feed` got.

    What a filter rejects depends on no earlier event.
    """
    if feed is None or not _depends_on_past(run, outcome):
        return outcome
    delivered = _delivered_at(feed, tuple(run.target.output_type.delivered.properties), time)
    if delivered is None or _same_rows(_repeated_at(run, time), delivered):
        return outcome
    return replace(_uncertain(outcome), rows=(), notes=(*outcome.notes, OTHER_ROWS))


def rehearsed_outcome(
    run: ProvenanceRerun, outcome: StatementOutcome, time: int, feed: Feed | None
) -> StatementOutcome:
    """Return an `outcome` of an event that would come now, at `time`. Its rows are those that `feed` got, which is of a
    copy of the workbench to which the event was sent. It is ``not known`` if there can be no copy.
    """
    if not _depends_on_past(run, outcome) or len(outcome.rows) >= MAX_ROWS:
        return outcome
    if feed is None:
        return replace(_uncertain(outcome), rows=())
    delivered = _delivered_at(feed, tuple(run.target.output_type.delivered.properties), time) or []
    if _same_rows([(sign == "+", dict(row)) for sign, row in outcome.rows], delivered):
        return outcome
    rows = tuple(("+" if insert else "−", row) for insert, row in delivered[:MAX_ROWS])
    verdict = "delivered" if rows else "not known"
    note = f"{COPY} {'these rows' if rows else 'no row'}"
    return replace(_uncertain(outcome), outcome=verdict, rows=rows, notes=(*outcome.notes, note))


def _depends_on_past(run: ProvenanceRerun, outcome: StatementOutcome) -> bool:
    fell_at = outcome.fell_at
    return run.target.projection is not None and (fell_at is None or fell_at.name != "filter")


def _uncertain(outcome: StatementOutcome) -> StatementOutcome:
    stages = tuple(replace(stage, passed=stage.passed or None) for stage in outcome.stages)
    return replace(outcome, outcome="not known", stages=stages)


def _delivered_at(feed: Feed, columns: tuple[str, ...], time: int) -> InstantRows | None:
    """Return the rows that a feed got at `time`; None if it may have lost some of them."""
    rows = feed.whole(time)
    if rows.lost and (not rows.times or rows.times[0] >= time):
        return None
    places = [place for place, of in enumerate(rows.times) if of == time]
    values = {name: rows.column(name) for name in columns} if places else {}
    return [(rows.inserts[place], {name: column[place] for name, column in values.items()}) for place in places]


def _repeated_at(run: ProvenanceRerun, time: int) -> InstantRows:
    rows: InstantRows = []
    for log_entries in run.all_stimuli():
        if run.runtime.now > time:
            break
        if log_entries[-1].time < time:
            run.play_silently(log_entries)
            continue
        run.play(log_entries)
        for delta in (delta for delta in run.result.delivered if delta.time == time):
            rows += [(True, row) for row in delta.insert or ()] + [(False, row) for row in delta.remove or ()]
    return rows


def _same_rows(some: InstantRows, others: InstantRows) -> bool:
    rest = list(others)
    for insert, row in some:
        place = next((i for i, (kind, like) in enumerate(rest) if kind == insert and matches_row(row, like)), None)
        if place is None:
            return False
        del rest[place]
    return not rest
