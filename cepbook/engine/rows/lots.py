"""Code of statements that take part in activations: what comes in becomes items, and a change is taken through.

``item0(e, S, now)`` makes the item of an event of input 0, of which ``S`` is the state; None where the filter does not
let it in. ``moved(S, change, now)`` delivers what a change of the views makes.
"""

from __future__ import annotations

from cepbook.engine.rows.emit import Emitter
from cepbook.engine.rows.pipeline import write_read
from cepbook.engine.rows.writer import StatementCode


def write_lots(body: StatementCode) -> None:
    """Write ``item0`` and so on, of each input, and ``moved``."""
    source, joins = body.source, body.joins
    inputs = [(body.code, body.pipeline)] if joins is None else [(each.code, each.pipeline) for each in joins.inputs]
    for number, (code, pipeline) in enumerate(inputs):
        with source.block(f"def item{number}(e, S, now):"):
            write_read(code, code.steps.source.filter, "now")
            code.number()
            source.line(f"return {pipeline.item()}", pipeline.span)
    with source.block("def moved(S, change, now):"):
        body.consume(Emitter(body.code, "now", guarded=True))
