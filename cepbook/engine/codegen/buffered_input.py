"""Code of statements that take part in activations: incoming events become items, and a delta is taken through.

``item0(e, S, now)`` returns the item of an event of input 0 with state ``S``; None if the filter rejects the event. It
raises an exception if something of the query cannot be computed for the item. Then only that item is left out.
``moved(S, change, now)`` delivers what a delta of the views makes.
"""

from __future__ import annotations

from cepbook.engine.codegen.emit import Emitter
from cepbook.engine.codegen.statement import StatementCodegen
from cepbook.engine.codegen.views import write_event_reading
from cepbook.engine.expressions import to_python as lower


def write_buffered_input(body: StatementCodegen) -> None:
    """Write ``item0`` and so on, for each input, and ``moved``."""
    source, joins = body.source, body.joins
    inputs = [(body.code, body.pipeline)] if joins is None else [(own.code, own.pipeline) for own in joins.inputs]
    for number, (code, pipeline) in enumerate(inputs):
        with source.block(f"def item{number}(e, S, now):"):
            write_event_reading(code, code.steps.source.filter, "now")
            if joins is None:
                _try_out(body)
            code.number()
            source.line(f"return {pipeline.item()}", pipeline.span)
    with source.block("def moved(S, change, now):"):
        body.consume(Emitter(body.code, "now", guarded=True))


def _try_out(body: StatementCodegen) -> None:
    steps, source, scope = body.steps, body.source, body.p
    columns = [column.value for column in steps.projection.columns] if steps.kind == "unaggregated" else []
    summed = [argument for call in steps.calls for argument in (*call.args, call.filter) if argument is not None]
    risky = [*body.code.risky_keys, *(e for e in (*summed, *columns) if lower.may_fail(e))]
    if risky:
        with body.code.where(scope):
            for e in risky:
                source.line(lower.value(scope, e), e.span)
    elif lower.may_fail(steps.where) and steps.where is not None:
        source.line(lower.truth(scope, steps.where), steps.where.span)
