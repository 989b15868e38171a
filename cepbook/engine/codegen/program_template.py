"""Texts that are shared by all statements of one shape: generated once, with placeholders for the constants.

A plan's constants are replaced by placeholders before its code is generated (`lang.plan.placeholder`). A fact about
them that the generator asks for becomes part of the shape: ``length(10)`` and ``length(20)`` have a text each if the
generator reads the length. So a statement has the text that would be generated for it alone, whatever was deployed
before: snapshots compare texts.

The first statement of a shape is generated as it is. The template is made with the second one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Generic, TypeVar

from cepbook.engine.expressions.code_scope import CodeScope
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.physical.shape import PlanShape, with_placeholders
from cepbook.errors import NO_SPAN, Span
from cepbook.lang.plan.nodes import SelectStatement
from cepbook.lang.plan.placeholder import Placeholder, Question, TemplateFamily, constant_identity
from cepbook.lang.types import Type

Text = TypeVar("Text")
_MOST_SHAPES = 256  # that are remembered
_STATELESS = frozenset((str, int, float, bool, type(None), Type, itemgetter))
PORT = "clock"  # the one name that the scope of a statement binds


@dataclass(slots=True, eq=False)
class VariablePort:
    """Stands for the variable `name`, of which each runtime has its own. `decides`: a filter reads it."""

    name: str
    partitioned: bool
    decides: bool = False

    def decide(self) -> None:
        self.decides = True


@dataclass(frozen=True, slots=True)
class ProgramTemplate(Generic[Text]):
    """A generated `text`. Its constants and spans are those of a statement, by their numbers in its shape."""

    text: Text
    constants: Mapping[str, Any]  # in the order of the text; None for those that each statement has itself
    numbers: Mapping[str, int]  # by the names of these, their places among the constants of a shape
    variables: Mapping[str, VariablePort]  # by the names of those that are variables
    lines: Mapping[int, int]  # numbers of spans, by line of the text

    def constants_of(self, shape: PlanShape, scope: CodeScope) -> dict[str, Any]:
        """Return the table of constants of a statement."""
        own = {name: shape.constants[number] for name, number in self.numbers.items()}
        for name, port in self.variables.items():
            own[name] = cell = scope.variables[port.name]
            if port.decides:
                cell.decide()
        return {**scope.source.constants, **self.constants, **own}

    def spans_of(self, shape: PlanShape) -> dict[int, Span]:
        """Return the EPL of each line of the text."""
        return {line: NO_SPAN if number < 0 else shape.spans[number] for line, number in self.lines.items()}


class ProgramTemplates(Generic[Text]):
    """The templates of the shapes that were used last. ``generate(plan)`` returns the text of a plan with placeholders,
    and the source that it wrote.
    """

    def __init__(self) -> None:
        self._families: dict[Hashable, TemplateFamily[ProgramTemplate[Text]]] = {}  # oldest use first

    def find(
        self,
        key: Hashable,
        plan: SelectStatement,
        shape: PlanShape,
        generate: Callable[[SelectStatement], tuple[Text, SourceWriter, PlanShape | None]],
    ) -> ProgramTemplate[Text] | None:
        """Return the template for `plan`, or None if its text cannot be shared, or if it is the first of its shape.

        `key` is everything that a text depends on beside the constants: the key of the shape, and settings.
        """
        family = self._families.pop(key, None)
        if family is None:
            self._families[key] = TemplateFamily()
            if len(self._families) > _MOST_SHAPES:
                self._families.pop(next(iter(self._families)), None)
            return None
        self._families[key] = family
        return family.find(shape.constants, partial(_make, plan, shape, generate))


def _make(
    plan: SelectStatement,
    shape: PlanShape,
    generate: Callable[[SelectStatement], tuple[Text, SourceWriter, PlanShape | None]],
    answered: frozenset[Question],
) -> ProgramTemplate[Text] | None:
    text, source, blank = generate(with_placeholders(plan, shape, answered))
    known = {constant_identity(shape.constants[i]) for compare, i, _ in answered if compare is None}
    # Lowering may not compute a constant from others: it would be that of the first statement.
    same = blank is not None and blank.key == shape.key and blank.fixed_constants() <= known
    return _template(text, source, shape) if same else None


def _template(text: Text, source: SourceWriter, shape: PlanShape) -> ProgramTemplate[Text] | None:
    numbers = {name: value.number for name, value in source.constants.items() if type(value) is Placeholder}
    variables = {name: value for name, value in source.constants.items() if type(value) is VariablePort}
    own = {*numbers, *variables}
    constants = {k: None if k in own else v for k, v in source.constants.items() if k != PORT}
    places = {span: number for number, span in reversed(list(enumerate(shape.spans)))}
    places.setdefault(NO_SPAN, -1)
    if not all(map(_stateless, constants.values())) or not places.keys() >= set(source.spans.values()):
        return None
    lines = {line: places[span] for line, span in source.spans.items()}
    return ProgramTemplate(text, constants, numbers, variables, lines)


def _stateless(value: object) -> bool:
    """Return whether statements can share the value."""
    if type(value) is tuple:
        return all(map(_stateless, value))
    if type(value) is BuiltinFunctionType:
        return isinstance(value.__self__, ModuleType)  # and is no method of an object
    return (
        type(value) in _STATELESS or isinstance(value, type) or (type(value) is FunctionType and not value.__closure__)
    )
