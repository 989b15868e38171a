"""Plans of statements that differ only in constants: bound and rewritten once, then built over other values.

The first statement that `reader.syntax_templates` builds is bound with placeholders for its values, under a catalog
that notes what is read of it. If the binder reads a value, such as the size of a window, statements with other values
have other templates (`plan.placeholder`). So a plan that a template builds is the one that the binder would return:
statements are of one template if their words, the types of their values, which of these are equal, the options and what
the binder reads of the catalog are the same.

Selects take part that depend on event types, functions, variables and contexts only: none that declares a stream, and
none with subqueries, declared expressions, named windows and tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, NoReturn

from cepbook.errors import NO_SPAN, Span
from cepbook.lang.bind.clauses.annotations import Heading, bind_annotations
from cepbook.lang.bind.clauses.subquery import bind_subquery
from cepbook.lang.bind.scope import AlreadyReported, ModuleScope
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.nodes import SelectStatement, StatementPlan
from cepbook.lang.plan.placeholder import Placeholder, Question, TemplateFamily, equal_constants
from cepbook.lang.rewrite import rewrite_statement
from cepbook.lang.syntax import ast
from cepbook.lang.tree_builder import Builder, Code, NotUniform, compile_builder

_MOST_FAMILIES = 512
_NAME, _EPL = "\0name\0", "\0epl\0"  # stand for the name and the text of a statement, which no text contains
# entries of the catalog that a template may depend on: plans have no places of the texts that declare them
_SHARED = frozenset(("contexts", "event_types", "functions", "variables"))
_ABSENT = object()


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class PlanTemplate:
    """``build(name, epl, values, starts, ends)`` makes a plan. It is valid under catalogs with the same `reads` (field,
    name and entry) and `listings` (field and all names). `requires` are the names that a module with the statement
    requires.
    """

    build: Builder
    reads: tuple[tuple[str, Any, Any], ...]
    listings: tuple[tuple[str, tuple[str, ...]], ...]
    requires: tuple[tuple[str, str], ...]

    def is_valid(self, catalog: Catalog) -> bool:
        """Return whether the binder would read the same entries of `catalog`."""
        for of, name, entry in self.reads:
            if getattr(catalog, of).get(name, _ABSENT) is not entry:
                return False
        return all(tuple(getattr(catalog, of)) == names for of, names in self.listings)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()  # a plan that is pickled or copied has no template


class PlanTemplates:
    """Builds plans. The families that were used last are remembered. ``bind(node, heading, module)`` binds one
    statement.
    """

    def __init__(self, bind: Callable[[ast.Statement, Heading, ModuleScope], StatementPlan | None]) -> None:
        self._bind = bind
        self._families: dict[tuple[Any, ...], TemplateFamily[PlanTemplate]] = {}  # oldest use first

    def plan(self, form: Any, span: Span, name: str, module: ModuleScope) -> SelectStatement | None:
        """Return the rewritten plan of the statement `name` at `span` with the `reader.StatementForm`, or None if it
        has no template.
        """
        if _NAME in name:
            return None
        numbers = equal_constants(form.values)
        key = form.template, numbers, module.options
        family = self._families.pop(key, None) or TemplateFamily()
        self._families[key] = family
        if len(self._families) > _MOST_FAMILIES:
            self._families.pop(next(iter(self._families)), None)
        template = family.find(form.values, lambda answered: self._template(form, numbers, module, answered))
        if template is None:
            return None
        if not template.is_valid(module.catalog):
            self._families.pop(key, None)  # the next statement makes another one
            return None
        plan: SelectStatement = template.build(name, module.text(span), form.values, form.starts, form.ends)
        object.__setattr__(plan, "template", template)
        for required in template.requires:
            module.require(*required)
        return plan

    def _template(
        self, form: Any, numbers: tuple[int, ...], module: ModuleScope, answered: frozenset[Question]
    ) -> PlanTemplate | None:
        read = {i for compare, i, _ in answered if compare is None}
        placeholders = [Placeholder(number, form.values[number], answered) for number in numbers]
        values = [form.values[number] if number in read else placeholders[number] for number in numbers]
        if form.template.name is not None:
            values[form.template.name] = _NAME
        noted = [_NotedEntries(getattr(module.catalog, of.name)) for of in fields(Catalog)]
        catalog = Catalog(*noted)
        scope = _TemplateScope(catalog, _NoText(), module.options, subquery=bind_subquery, statement=_NoText())
        try:
            tree = form.template.build(values, form.starts, form.ends)
            bound = self._bind(tree, replace(bind_annotations(tree.annotations, scope), name=_NAME), scope)
            if type(bound) is not SelectStatement or scope.problems.reported or scope.provides or scope.subqueries:
                return None
            parameters = "name, epl, values, starts, ends"
            build = compile_builder(parameters, rewrite_statement(bound), _variables(form))
        except (NotUniform, AlreadyReported):
            return None
        kinds = {of.name: entries for of, entries in zip(fields(Catalog), noted, strict=True)}
        reads = tuple((of, name, entry) for of, entries in kinds.items() for name, entry in entries.reads.items())
        if any(entry is not _ABSENT and of not in _SHARED for of, _, entry in reads):
            return None
        listings = tuple((of, entries.names) for of, entries in kinds.items() if entries.names is not None)
        return PlanTemplate(build, reads, listings, tuple(scope.requires))


def _variables(form: Any) -> Callable[[Any], Code | None]:
    """Return the function that returns the code of values that differ between statements."""
    starts = {start: number for number, start in enumerate(form.starts)}
    ends = {end: number for number, end in enumerate(form.ends)}

    def code(value: Any) -> Code | None:
        kind = type(value)
        if kind is _NoText:
            raise NotUniform
        if kind is Placeholder:
            return f"values[{value.number}]"
        if kind is Span and value != NO_SPAN:
            if value.start not in starts or value.end not in ends:
                raise NotUniform
            return f"starts[{starts[value.start]}]", f"ends[{ends[value.end]}]"
        if kind is str and _NAME in value:
            return " + name + ".join(repr(text) for text in value.split(_NAME))
        return "epl" if kind is str and value == _EPL else None

    return code


class _TemplateScope(ModuleScope):
    """The state of binding a statement that stands for others. Their texts differ, so rules may not read them."""

    __slots__ = ()

    def text(self, span: Span) -> str:
        return _EPL

    def locate(self, name: str, span: Span) -> Span:
        return span  # only reports need the place of a name


class _NoText(str):
    """The text of no module, and the name of no statement as a value: to read it shows that a plan depends on more than
    its values.
    """

    __slots__ = ()

    def _read(self, *_: Any) -> NoReturn:
        raise NotUniform

    __getitem__ = __contains__ = __eq__ = __hash__ = __format__ = _read


class _NotedEntries(dict[Any, Any]):
    """A field of a catalog that notes which of its entries are read, and all `names` if they are listed."""

    def __init__(self, entries: dict[Any, Any]) -> None:
        super().__init__(entries)
        self.reads: dict[Any, Any] = {}
        self.names: tuple[str, ...] | None = None

    def get(self, key: Any, default: Any = None) -> Any:
        entry = self.reads[key] = super().get(key, _ABSENT)
        return default if entry is _ABSENT else entry

    def __iter__(self) -> Iterator[Any]:
        self.names = tuple(super().__iter__())
        return iter(self.names)

    def __getitem__(self, key: Any) -> Any:
        self.get(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        return self.get(key, _ABSENT) is not _ABSENT

    def _read_whole(self, *_: Any) -> NoReturn:
        raise NotUniform

    __len__ = __setitem__ = __delitem__ = keys = values = items = copy = _read_whole
