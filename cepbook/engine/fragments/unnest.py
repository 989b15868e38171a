"""Contained-event selection as code: the function that returns the events contained in an event."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.to_python import CodeScope
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.nodes import ContainedSelection


def write_unnest(contained: Sequence[ContainedSelection], scope: CodeScope, name: str, parameters: str = "e, S") -> str:
    """Write ``unfold(e, S)``, which returns the contained events in order. It returns None if the outermost property is
    null, or if brackets behind brackets contain nothing.
    """
    source = scope.source
    with source.block(f"def {name}({parameters}):"):
        source.line("found = []")
        _level(contained, 0, ["e"], scope)
        source.line("return found or None" if len(contained) > 1 else "return found")
    return name


def _level(contained: Sequence[ContainedSelection], depth: int, around: list[str], scope: CodeScope) -> None:
    """Write the loop over the events of one bracket; `around` are the enclosing events, nearest first."""
    source, step = scope.source, contained[depth]
    source.line(f"a{depth} = {lower.value(_seeing([step.path], around, scope), step.path)}", step.path.span)
    with source.block(f"if a{depth} is None:"):
        source.line("continue" if depth else "return None")
    many = f"a{depth}" if step.path.type.of is not None else f"(a{depth},)"
    item = f"i{depth}"
    with source.block(f"for {item} in {many}:"):
        if step.scalar is not None:
            source.line(f"{item} = {{{source.const(step.scalar, 'n')}: {item}}}")
        with source.block(f"if {item} is None:"):
            source.line("continue")
        values = [column.value for column in step.columns]
        inner = _seeing([*values, *([] if step.where is None else [step.where])], [item, *around], scope)
        if step.where is not None:
            with source.block(f"if not {lower.truth(inner, step.where)}:", step.where.span):
                source.line("continue")
        source.line(f"r{depth} = {_row(step, item, inner)}", step.span)
        if depth + 1 < len(contained):
            selected = [f"r{depth}"] if step.columns else []
            _level(contained, depth + 1, [item, *selected, *around], scope)
        else:
            source.line(f"found.append(r{depth})")


def _row(step: ContainedSelection, item: str, scope: CodeScope) -> str:
    source = scope.source
    columns = [f"{source.const(c.name, 'n')}: {source.part(c.span)}{lower.value(scope, c.value)}" for c in step.columns]
    return item if not columns else "{" + ", ".join([f"**{item}"] * step.wildcard + columns) + "}"


def _seeing(exprs: Iterable[x.BoundExpr], events: Sequence[str], scope: CodeScope) -> CodeScope:
    read = {(node.stream, node.name) for e in exprs for node in x.find(x.Prop, e)}
    props = {(number, name): f"{events[number]}.get({scope.source.const(name, 'n')})" for number, name in sorted(read)}
    return scope.at(props=props, events=dict(enumerate(events)))
