"""The printed form of every stage between text and running statement.

``ast`` is the syntax tree, ``plan`` the bound plan, ``rewritten`` the plan after the rewrites, and ``epl`` the EPL that
is nearest to a plan of another dialect. The stages ``steps`` (what a statement does with an event), ``python`` (the
generated code) and ``coverage`` (which engine runs the statement, and why) come from the engines as functions of the
rewritten plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from cepbook.dialects.registry import find_dialect, translate
from cepbook.errors import UsageError, did_you_mean
from cepbook.lang.bind import Options
from cepbook.lang.explain.nearest_epl import nearest_epl
from cepbook.lang.explain.statements import show_plan
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.nodes import ModulePlan
from cepbook.lang.rewrite import rewrite
from cepbook.lang.syntax.source_text import dialect_of

STAGES = ("ast", "plan", "rewritten", "epl", "steps", "python", "coverage")

StagePrinter = Callable[[ModulePlan], str]


def show_stage(
    stage: str,
    text: str,
    catalog: Catalog,
    *,
    printers: Mapping[str, StagePrinter] | None = None,
    options: Options = Options(),
    only: str | None = None,
) -> str:
    """Return `text`, which may be of any dialect, after `stage`; with `only` the statement of that name.

    `printers` supply the stages of the engines: ``{"python": …, "coverage": …}``. Raises UsageError for an unknown
    stage, and ParseError and BindError as compiling does.
    """
    known = (*STAGES, *(printers or ()))
    if stage not in known:
        hint = did_you_mean(stage, known)
        raise UsageError(f"no stage `{stage}`" + (f", {hint}" if hint is not None else f": {', '.join(STAGES)}"))
    if stage == "ast":
        return find_dialect(dialect_of(text)).tree(text)
    bound = translate(text, catalog, options=options)
    if only is not None:
        bound = replace(bound, statements=tuple(statement for statement in bound.statements if statement.name == only))
    if stage == "plan":
        return show_plan(bound)
    if stage == "epl":
        return nearest_epl(bound)
    rewritten = rewrite(bound)
    if stage == "rewritten":
        return show_plan(rewritten)
    printer = (printers or {}).get(stage)
    if printer is None:
        raise UsageError(f"no engine is here to show stage `{stage}`")
    return printer(rewritten)
