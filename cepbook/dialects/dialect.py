"""What a dialect is to the rest of cepbook: one row of the registry `lang.dialects.DIALECTS`."""

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

    ``translate(text, catalog, names, options)`` gives the plan of a text, of the same nodes whatever the language;
    statements avoid the `names` that are taken, and the text may be a `lang.text.Text` with settings. It raises
    ParseError and BindError, in the words of the language, with ``origin`` the name of the dialect. ``declares(text)``
    are the names that the text gives to statements, event types and the like: running it again replaces them.
    ``tree(text)`` prints what was written.

    `settings` are what may be said beside the text, name and doc; ``name`` is that of the statement. Those in `tabular`
    are tables by name, in a cell the names of Python variables that hold them. `magic` is the
    name of the cell magic, `summary` its one sentence, `keywords` are completed in its cells, with a doc for each.
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
    """A tree of dataclasses, a line for each: the name of the class, and its plain fields."""
    plain, below = [], []
    for each in fields(node) if is_dataclass(node) else ():
        value = getattr(node, each.name)
        inner = value if isinstance(value, tuple) else (value,)
        parts = [part for item in inner for part in (item if isinstance(item, tuple) else (item,)) if part is not None]
        if any(is_dataclass(part) and not isinstance(part, Span) for part in parts):
            below += [f"{indent}  {each.name}:", *(_shown(part, indent + "    ") for part in parts)]
        elif parts and each.name != "span" and value is not False:
            plain.append(f"{each.name}={', '.join(map(str, parts))}")
    return "\n".join([f"{indent}{type(node).__name__} {' '.join(plain)}".rstrip(), *below])


def _shown(part: object, indent: str) -> str:
    return show_tree(part, indent) if is_dataclass(part) else f"{indent}{part}"
