"""match_recognize as text: its clauses, its regular expression, its conditions.

::

    recognize (A B* C) to next row
      by symbol
      A where price > 10
      C where price < A.price
      first = A.price
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cepbook.lang.explain.expressions import show_expr as show
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.plan import row_pattern as r
from cepbook.lang.plan.relational import CURRENT_ROW, MATCHED_ROWS
from cepbook.lang.plan.traversal import rebuild_expr
from cepbook.lang.types import INT


def show_recognize(node: nodes.Recognition) -> list[str]:
    """Return the clauses, one per line."""
    names = [variable.name for variable in node.variables]
    words = [f"recognize ({show_row_pattern(node.pattern, names)}) {node.skip}"]
    words += ["all matches"] * node.all_matches + ["iterate only"] * node.iterate_only
    lines = [", ".join(words)]
    if node.keys:
        lines.append(f"  by {', '.join(map(show, node.keys))}")
    if node.predicate is not None:
        lines.append(f"  rows where {show(node.predicate)}")
    if node.interval is not None:
        lines.append(f"  told of {show(node.interval)} after the first row{' or when it ends' * node.or_terminated}")
    lines += [f"  {v.name} where {_show_named(v.condition)}" for v in node.variables if v.condition is not None]
    return lines + [f"  {c.name}: {c.value.type} = {_show_named(c.value)}" for c in node.measures]


def show_row_variable(variable: nodes.RowDefinition) -> str:
    """Return a variable with its condition: ``B where price > A.price``."""
    if variable.condition is None:
        return variable.name
    return f"{variable.name} where {_show_named(variable.condition)}"


def _show_named(e: x.BoundExpr) -> str:
    return show(rebuild_expr(e, _matched))


def _matched(e: x.BoundExpr) -> x.BoundExpr:
    """Write variables by their names, and rows before the tested one with ``prev``."""
    if isinstance(e, x.Prior):
        return x.Prev(e.type, "prev", x.Const(INT, e.index), e.value)
    if isinstance(e, x.Prop) and e.stream == MATCHED_ROWS:
        return replace(e, stream=CURRENT_ROW, name=e.name.removesuffix("[]"))
    return e


def show_row_pattern(pattern: r.RowRegex, names: Sequence[str]) -> str:
    """``A (B | C)* D{2,}``"""
    match pattern:
        case r.RowVariable():
            return names[pattern.number]
        case r.RowSequence():
            return " ".join(_grouped(operand, names, r.RowAlternation) for operand in pattern.operands)
        case r.RowAlternation():
            return " | ".join(show_row_pattern(operand, names) for operand in pattern.operands)
        case r.RowPermutation():
            return f"match_recognize_permute({', '.join(show_row_pattern(o, names) for o in pattern.operands)})"
        case r.RowRepeat():
            inner = _grouped(pattern.operand, names, (r.RowAlternation, r.RowSequence, r.RowRepeat))
            return f"{inner}{_quantifier(pattern)}{'?' * pattern.reluctant}"
    raise TypeError(f"no rule for {type(pattern).__name__}")


def _grouped(pattern: r.RowRegex, names: Sequence[str], kinds: type | tuple[type, ...]) -> str:
    text = show_row_pattern(pattern, names)
    return f"({text})" if isinstance(pattern, kinds) else text


def _quantifier(pattern: r.RowRepeat) -> str:
    low, high = pattern.low, pattern.high
    if (low, high) in ((0, None), (1, None), (0, 1)):
        return {(0, None): "*", (1, None): "+", (0, 1): "?"}[low, high]
    if low == high:
        return f"{{{low}}}"
    return f"{{{low or ''},{'' if high is None else high}}}"
