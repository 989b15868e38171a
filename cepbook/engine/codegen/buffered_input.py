"""Code of statements that take part in activations: what comes in becomes items, and a change is taken through.

``item0(e, S, now)`` makes the item of an event of input 0, of which ``S`` is the state; None where the filter does not
let it in. It fails where something of the query cannot be calculated for the item, which then is none of the query; the
others of its lot go on. ``moved(S, change, now)`` delivers what a change of the views makes.
"""

from __future__ import annotations

from cepbook.engine.codegen.emit import Emitter
from cepbook.engine.codegen.statement import StatementCodegen
from cepbook.engine.codegen.views import write_event_reading
from cepbook.engine.expressions import to_python as lower


def write_buffered_input(body: StatementCodegen) -> None:
    """Write ``item0`` and so on, of each input, and ``moved``."""
    source, joins = body.source, body.joins
    inputs = [(body.code, body.pipeline)] if joins is None else [(each.code, each.pipeline) for each in joins.inputs]
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
    """Write what calculates for the arriving event that which may fail, if the where-clause lets it in."""
    steps, source, scope = body.steps, body.source, body.p
    shown = [column.value for column in steps.projection.columns] if steps.kind == "unaggregated" else []
    summed = [part for call in steps.calls for part in (*call.args, call.filter) if part is not None]
    tried = [*body.code.risky_keys, *(e for e in (*summed, *shown) if lower.may_fail(e))]
    if tried:
        with body.code.where(scope):
            for e in tried:
                source.line(lower.value(scope, e), e.span)
    elif lower.may_fail(steps.where) and steps.where is not None:
        source.line(lower.truth(scope, steps.where), steps.where.span)
