"""What is deployed, as a table."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from cepbook.engine.runtime import Runtime
from cepbook.feeds import Feed
from cepbook.lang.plan import nodes
from cepbook.lang.types import LONG, STRING
from cepbook.session.core.run_results import columns_text, statement_kind
from cepbook.session.io.result_frames import rows_frame

_KINDS: dict[type[nodes.StatementPlan], str] = {
    nodes.SelectStatement: "select",
    nodes.CreateIndexStatement: "create index",
    nodes.OnSelectStatement: "on select",
    nodes.CreateSchemaStatement: "create schema",
    nodes.CreateContextStatement: "create context",
    nodes.CreateContextTreeStatement: "create context",
    nodes.CreateExpressionStatement: "create expression",
    nodes.CreateVariableStatement: "create variable",
    nodes.OnSetStatement: "on set",
    nodes.SplitStatement: "split",
    nodes.MergeStatement: "on merge",
    nodes.UpdateStatement: "update istream",
    nodes.CycleStatement: "running query",
}


def statements_frame(runtime: Runtime, feed_of: Callable[[str], Feed]) -> pd.DataFrame:
    """All statements, in order of deployment: name, kind, context, what they read, columns, rows, text."""
    lines = []
    for deployment in runtime.deployments.values():
        for one in deployment.plan.statements:
            line: dict[str, object] = {"name": one.name, "epl": one.epl, "delivered": 0}
            line |= {"kind": _KINDS.get(type(one)) or statement_kind(runtime.statement(one.name))}
            if one.name in runtime.statements:
                feed = feed_of(one.name)
                line |= {"columns": columns_text(runtime.statement(one.name).output_type.properties)}
                line |= {"delivered": feed.total_insert + feed.total_remove}
            if isinstance(one, nodes.StreamStatement):
                several = (
                    one.sources if isinstance(one, nodes.SelectStatement | nodes.CycleStatement) else (one.source,)
                )
                own = [each for each in several if not each.nothing]
                named = (each.event_types if each.store is None else (each.store.name,) for each in own)
                reads = [name for names in named for name in names]
                inner = (each.source.event_type for each in one.subqueries)
                line |= {"context": one.context}
                if not isinstance(one, nodes.CreateWindowStatement):
                    line |= {"reads": ", ".join(dict.fromkeys((*reads, *inner)))}
            elif isinstance(one, nodes.CreateTableStatement):
                line |= {"context": one.context}
            elif isinstance(one, nodes.CreateIndexStatement):
                line |= {"reads": one.index.store}
            elif isinstance(one, nodes.CreateExpressionStatement):
                line |= {"name": one.name if one.named else one.expression.name}
            elif isinstance(one, nodes.CreateVariableStatement):
                line |= {"name": one.name if one.named else one.variable.name}
            elif isinstance(one, nodes.CreateSchemaStatement):
                line |= {"name": one.name if one.named else one.event_type.name}
                line |= {"columns": columns_text(one.event_type.shown)}
            elif isinstance(one, (nodes.CreateContextStatement, nodes.CreateContextTreeStatement)):
                line |= {"name": one.name if one.named else one.context.name}
                line |= {"reads": ", ".join(one.context.event_types)}
            lines.append(line)
    texts = ("name", "kind", "context", "reads", "columns")
    properties = {**dict.fromkeys(texts, STRING), "delivered": LONG, "epl": STRING}
    return rows_frame(lines, properties)
