"""The interface of a dialect: one row of the registry `cepbook.dialects.registry.DIALECTS`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, is_dataclass

from cepbook.errors import Span, UsageError
from cepbook.lang.bind.scope import Options
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.nodes import ModulePlan


def _no_tree(text: str) -> str:
    raise UsageError("this dialect does not show what was written")


@dataclass(frozen=True, slots=True)
class Dialect:
    """A language that statements can be written in.

    ``translate(text, catalog, names, options)`` returns the plan of a text, made of the same nodes in every language.
    Statements avoid the `names` in use. The text may be a `SourceText` with settings. ParseError and BindError speak
    the language's words and have the dialect's name as ``origin``. ``declares(text)`` returns the names that the text
    gives to statements, event types and other objects: running the text again replaces them. ``tree(text)`` prints the
    syntax tree.

    `settings` are the settings next to the text, by name, with their documentation; ``name`` is the name of the
    statement. Settings in `tabular` are tables by name; in a cell, they are the names of Python variables. `magic` is
    the name of the cell magic and `summary` its one sentence. `keywords` are completed in its cells, each with its
    documentation.
    """

    name: str
    title: str
    translate: Callable[[str, Catalog, Collection[str], Options], ModulePlan]
    declares: Callable[[str], frozenset[str]]
    magic: str = ""
    summary: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    tabular: frozenset[str] = frozenset()
    keywords: Mapping[str, str] = field(default_factory=dict)
    tree: Callable[[str], str] = _no_tree


def show_tree(node: object, indent: str = "") -> str:
    """Return a tree of dataclasses as text: one line per node with the name of its class and its plain fields."""
    plain, below = [], []
    for field_ in fields(node) if is_dataclass(node) else ():
        value = getattr(node, field_.name)
        inner = value if isinstance(value, tuple) else (value,)
        items = (item if isinstance(item, tuple) else (item,) for item in inner)
        parts = [child for item in items for child in item if child is not None]
        if any(is_dataclass(child) and not isinstance(child, Span) for child in parts):
            below += [f"{indent}  {field_.name}:", *(_item_text(child, indent + "    ") for child in parts)]
        elif parts and field_.name != "span" and value is not False:
            plain.append(f"{field_.name}={', '.join(map(str, parts))}")
    return "\n".join([f"{indent}{type(node).__name__.removeprefix('Apama')} {' '.join(plain)}".rstrip(), *below])


def _item_text(child: object, indent: str) -> str:
    return show_tree(child, indent) if is_dataclass(child) else f"{indent}{child}"
