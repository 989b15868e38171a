"""Physical plans of statements that differ only in constants: lowered once, then built from the nodes of each plan.

Plans of one template (`lang.bind.plan_templates`) have the same nodes over other constants. Lowering such a plan with
placeholders shows whether it depends on the constants. If it does not, a builder puts the nodes of another plan in the
places of those of the first one. A plan in which other constants are equal is lowered by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from cepbook.engine.physical.lowering import lower_statement
from cepbook.engine.physical.plan import PhysicalPlan
from cepbook.engine.physical.shape import PlanShape, ShapeKey, shape_of, with_placeholders
from cepbook.lang.plan.nodes import SelectStatement
from cepbook.lang.plan.placeholder import ConstantRead, equal_constants
from cepbook.lang.plan.places import places_in
from cepbook.lang.tree_builder import Builder, NotUniform, compile_builder


@dataclass(frozen=True, slots=True)
class _LoweringTemplate:
    """``build(plan)`` returns the physical plan, and the constants and spans of its shape. `equal` says which of the
    constants are equal.
    """

    build: Builder
    key: ShapeKey
    equal: tuple[int, ...]


_TEMPLATES: WeakKeyDictionary[Any, _LoweringTemplate | None] = WeakKeyDictionary()  # by template of the plan


def lower_to_shape(
    plan: SelectStatement, subqueries: tuple[PhysicalPlan, ...] = ()
) -> tuple[PhysicalPlan, PlanShape | None]:
    """Return the physical plan of a select with these `subqueries`, and its shape. Errors: those of lowering."""
    template = None if plan.template is None else _TEMPLATES.get(plan.template)
    if template is not None:
        steps, constants, spans = template.build(plan)
        if equal_constants(constants) == template.equal:
            return steps, PlanShape(template.key, constants, spans)
    steps = lower_statement(plan)
    steps.subqueries = subqueries
    shape = shape_of(steps)
    if plan.template is not None and plan.template not in _TEMPLATES:
        _TEMPLATES[plan.template] = None if shape is None else _template(plan, shape)
    return steps, shape


def _template(plan: SelectStatement, shape: PlanShape) -> _LoweringTemplate | None:
    blank = with_placeholders(plan, shape, frozenset())
    try:
        steps = lower_statement(blank)
        own = shape_of(steps)
        if own is None or own.key != shape.key or own.fixed_constants():
            return None
        build = compile_builder("plan", (steps, tuple(own.constants), tuple(own.spans)), places_in("plan", blank))
    except (ConstantRead, NotUniform, TypeError):
        return None
    return _LoweringTemplate(build, shape.key, equal_constants(shape.constants))
