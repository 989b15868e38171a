"""What a dialect is to the rest of cepbook: one row of the registry `lang.dialects.DIALECTS`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from cepbook.lang.bind.names import Options
from cepbook.lang.catalog import Catalog
from cepbook.lang.plan import ModulePlan


@dataclass(frozen=True, slots=True)
class Dialect:
    """A language that statements can be written in.

    ``translate(text, catalog, names, options)`` gives the plan of a text, of the same nodes whatever the language;
    statements avoid the `names` that are taken, and the text may be a `lang.text.Text` with settings. It raises
    ParseError and BindError, in the words of the language, with ``origin`` the name of the dialect. ``declares(text)``
    are the names that the text gives to statements, event types and the like: running it again replaces them.

    `settings` are what may be said beside the text, name and doc; ``name`` is that of the statement. `magic` is the
    name of the cell magic, `summary` its one sentence, `keywords` are completed in its cells, with a doc for each.
    """

    name: str
    title: str
    translate: Callable[[str, Catalog, Collection[str], Options], ModulePlan]
    declares: Callable[[str], frozenset[str]]
    magic: str = ""
    summary: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    keywords: Mapping[str, str] = field(default_factory=dict)
