"""The printed form of every stage between text and running statement.

``ast`` what was written, ``plan`` what it means, ``rewritten`` the plan after the rewrites; ``python`` (the generated
code) and ``coverage`` (which engine runs it and why) come from the engines, as callables over the rewritten plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields

from cepbook.errors import NOWHERE, UsageError
from cepbook.lang import ast
from cepbook.lang.bind import Options, bind
from cepbook.lang.bind.names import did_you_mean
from cepbook.lang.catalog import Catalog
from cepbook.lang.dialects import epl
from cepbook.lang.explain_plan import show_plan
from cepbook.lang.plan import ModulePlan
from cepbook.lang.rewrite import rewrite

STAGES = ("ast", "plan", "rewritten", "python", "coverage")

Printer = Callable[[ModulePlan], str]


def show(
    stage: str,
    text: str,
    catalog: Catalog,
    *,
    printers: Mapping[str, Printer] | None = None,
    options: Options = Options(),
) -> str:
    """`text` after `stage`. `printers` give the stages that engines know: ``{"python": …, "coverage": …}``.

    Raises UsageError for an unknown stage, ParseError and BindError as compiling does.
    """
    known = (*STAGES, *(printers or ()))
    if stage not in known:
        hint = did_you_mean(stage, known)
        raise UsageError(f"no stage `{stage}`" + (f", {hint}" if hint is not None else f": {', '.join(STAGES)}"))
    module = epl.parse(text)
    if stage == "ast":
        return show_ast(module)
    bound = bind(module, catalog, text, options=options)
    if stage == "plan":
        return show_plan(bound)
    rewritten = rewrite(bound)
    if stage == "rewritten":
        return show_plan(rewritten)
    printer = (printers or {}).get(stage)
    if printer is None:
        raise UsageError(f"no engine is here to show stage `{stage}`")
    return printer(rewritten)


def show_ast(node: ast.Node) -> str:
    """A syntax tree, one node a line; fields with their default values are left out."""
    return "\n".join(_lines(node, "", ""))


def _lines(value: object, indent: str, label: str) -> list[str]:
    if isinstance(value, ast.Node):
        return _node_lines(value, indent, label)
    if isinstance(value, tuple) and any(isinstance(item, (ast.Node, tuple)) for item in value):
        lines = [f"{indent}{label}"]
        for item in value:
            lines.extend(_lines(item, indent + "  ", "- "))
        return lines
    return [f"{indent}{label}{_plain(value)}"]


def _node_lines(node: ast.Node, indent: str, label: str) -> list[str]:
    simple: list[str] = []
    nested: list[str] = []
    for f in fields(node):
        value = getattr(node, f.name)
        if f.name == "span" or value == f.default or (value == () and f.default == ()):
            continue
        if _is_nested(value):
            nested.extend(_lines(value, indent + "  ", f"{f.name}: "))
        else:
            simple.append(f"{f.name}={_plain(value)}")
    at = f" @{node.span.start}-{node.span.end}" if node.span != NOWHERE else ""
    return [f"{indent}{label}{type(node).__name__}({', '.join(simple)}){at}", *nested]


def _is_nested(value: object) -> bool:
    return isinstance(value, ast.Node) or (isinstance(value, tuple) and any(_is_nested(item) for item in value))


def _plain(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(_plain(item) for item in value)})"
    return "null" if value is None else repr(value)
