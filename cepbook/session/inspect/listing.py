"""What is deployed, as a table."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from cepbook.engine.runtime import Runtime
from cepbook.feeds import Feed
from cepbook.lang import plan
from cepbook.lang.types import LONG, STRING
from cepbook.session.data.tables import frame_of
from cepbook.session.running.results import columns_text, kind_of

_KINDS: dict[type[plan.StatementPlan], str] = {
    plan.SelectStatement: "select",
    plan.CreateIndexStatement: "create index",
    plan.OnSelectStatement: "on select",
    plan.CreateSchemaStatement: "create schema",
    plan.CreateContextStatement: "create context",
    plan.CreateContextTreeStatement: "create context",
    plan.CreateExpressionStatement: "create expression",
    plan.CreateVariableStatement: "create variable",
    plan.OnSetStatement: "on set",
    plan.SplitStatement: "split",
    plan.MergeStatement: "on merge",
    plan.UpdateStatement: "update istream",
    plan.CycleStatement: "running query",
}


def statements_of(runtime: Runtime, feed_of: Callable[[str], Feed]) -> pd.DataFrame:
    """All statements, in order of deployment: name, kind, context, what they read, columns, rows, text."""
    lines = []
    for deployment in runtime.deployments.values():
        for one in deployment.plan.statements:
            line: dict[str, object] = {"name": one.name, "epl": one.epl, "delivered": 0}
            line |= {"kind": _KINDS.get(type(one)) or kind_of(runtime.statement(one.name))}
            if one.name in runtime.statements:
                feed = feed_of(one.name)
                line |= {"columns": columns_text(runtime.statement(one.name).output_type.properties)}
                line |= {"delivered": feed.total_insert + feed.total_remove}
            if isinstance(one, plan.Reader):
                several = one.sources if isinstance(one, plan.SelectStatement | plan.CycleStatement) else (one.source,)
                own = [each for each in several if not each.nothing]
                named = (each.event_types if each.store is None else (each.store.name,) for each in own)
                reads = [name for names in named for name in names]
                inner = (each.source.event_type for each in one.subqueries)
                line |= {"context": one.context}
                if not isinstance(one, plan.CreateWindowStatement):
                    line |= {"reads": ", ".join(dict.fromkeys((*reads, *inner)))}
            elif isinstance(one, plan.CreateTableStatement):
                line |= {"context": one.context}
            elif isinstance(one, plan.CreateIndexStatement):
                line |= {"reads": one.index.store}
            elif isinstance(one, plan.CreateExpressionStatement):
                line |= {"name": one.name if one.named else one.expression.name}
            elif isinstance(one, plan.CreateVariableStatement):
                line |= {"name": one.name if one.named else one.variable.name}
            elif isinstance(one, plan.CreateSchemaStatement):
                line |= {"name": one.name if one.named else one.event_type.name}
                line |= {"columns": columns_text(one.event_type.shown)}
            elif isinstance(one, (plan.CreateContextStatement, plan.CreateContextTreeStatement)):
                line |= {"name": one.name if one.named else one.context.name}
                line |= {"reads": ", ".join(one.context.event_types)}
            lines.append(line)
    texts = ("name", "kind", "context", "reads", "columns")
    properties = {**dict.fromkeys(texts, STRING), "delivered": LONG, "epl": STRING}
    return frame_of(lines, properties)
