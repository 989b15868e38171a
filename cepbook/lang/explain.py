"""The printed form of every stage between text and running statement.

``ast`` what was written, ``plan`` what it means, ``rewritten`` the plan after the rewrites; ``steps`` (what a statement
does with an event), ``python`` (the generated code) and ``coverage`` (which engine runs it and why) come from the
engines, as callables over the rewritten plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cepbook.errors import UsageError, did_you_mean
from cepbook.lang.bind import Options, bind
from cepbook.lang.catalog import Catalog
from cepbook.lang.dialects import epl
from cepbook.lang.explain_ast import show_ast
from cepbook.lang.explain_plan import show_plan
from cepbook.lang.plan import ModulePlan
from cepbook.lang.rewrite import rewrite

STAGES = ("ast", "plan", "rewritten", "steps", "python", "coverage")

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
