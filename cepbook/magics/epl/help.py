"""``%epl help [TOPIC]``: magics, clauses, windows, aggregates, functions, methods, from their registries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from cepbook.dialects.registry import DIALECTS
from cepbook.editor.offers import Offer
from cepbook.editor.word_docs import (
    aggregate_doc,
    clause_doc,
    foreign_doc,
    function_doc,
    method_doc,
    problem_doc,
    window_doc,
    window_signature,
)
from cepbook.errors import UsageError
from cepbook.lang.registry.aggregates import AGGREGATES
from cepbook.lang.registry.clauses import CLAUSE_OF_KEYWORD, CLAUSES
from cepbook.lang.registry.foreign_words import FOREIGN_WORDS, foreign_word
from cepbook.lang.registry.functions import FUNCTIONS
from cepbook.lang.registry.methods import METHODS, methods_named
from cepbook.lang.registry.problem_codes import PROBLEMS
from cepbook.lang.registry.windows import WINDOWS
from cepbook.magics.shell.host import MagicCommand, NotebookHost, Subcommand
from cepbook.magics.shell.options import did_you_mean
from cepbook.magics.shell.output import stack, table, text
from cepbook.widgets.base.static_picture import StaticPicture


def help_text(commands: Sequence[MagicCommand], topic: str) -> StaticPicture:
    """Return the help on `topic`: empty, a list, or the name of a magic or of a registry row."""
    name = topic.strip().lstrip("%#").lower()
    if not name:
        return _overview(commands)
    if name in LISTS:
        return LISTS[name](commands)
    entry = _entry(commands, name)
    if entry is not None:
        return text(entry, sentences=True)
    methods = (row.short for row in METHODS.values())
    forms = [form.split()[1] for c in commands for form in c.says if form.split()[1:] and form.split()[1].isalpha()]
    forms += [command.name for command in commands]
    known = [*LISTS, *CLAUSE_OF_KEYWORD, *WINDOWS, *AGGREGATES, *FUNCTIONS, *methods, *forms, *FOREIGN_WORDS, *PROBLEMS]
    raise UsageError(f"%epl help: unknown topic `{topic}`{did_you_mean(name, known)} (topics: {', '.join(LISTS)})")


FIRST_STEPS = (
    ('cep.define("Tick", frame, time="ts")', "what events look like: a DataFrame, a file, dicts, a dict of types"),
    ("%%epl", "a cell of statements: select symbol, avg(price) as mean from Tick#time(10 min) group by symbol"),
    ('cep.replay(frame, type="Tick").run()', "the rows as events, in order of time"),
    ('%view NAME, cep.changes("NAME")', "what a statement delivered, live and as a DataFrame"),
    ('cep.to_frame("NAME")', "the rows that hold now: nothing, where windows have run empty"),
)


def _overview(commands: Sequence[MagicCommand]) -> StaticPicture:
    rows = [(form, command.says.get(form, command.summary)) for command in commands for form in command.usage]
    more = f"%epl help TOPIC: {', '.join(LISTS)}, or any name in them"
    first = table("first steps", ("write", "for"), FIRST_STEPS, sentences=True)
    return stack([first, table("magics", ("magic", "what it does"), rows, notes=(more,), sentences=True)])


def _windows(commands: Sequence[MagicCommand]) -> StaticPicture:
    rows = [(window_signature(row), row.doc) for row in WINDOWS.values()]
    return table("data windows", ("window", "what it does"), rows, sentences=True)


def _aggregates(commands: Sequence[MagicCommand]) -> StaticPicture:
    rows = [(row.example, row.doc) for row in AGGREGATES.values()]
    return table("aggregation functions", ("example", "what it is"), rows, sentences=True)


def _functions(commands: Sequence[MagicCommand]) -> StaticPicture:
    rows = [(row.name, row.doc, row.example) for row in FUNCTIONS.values()]
    return table("functions and methods", ("name", "what it is", "example"), rows, sentences=True)


def _methods(commands: Sequence[MagicCommand]) -> StaticPicture:
    rows = [(row.name, row.doc, row.example) for row in METHODS.values()]
    return table("methods of values", ("name", "what it is", "example"), rows, sentences=True)


def _clauses(commands: Sequence[MagicCommand]) -> StaticPicture:
    rows = [(row.name, row.doc, row.example) for row in CLAUSES.values()]
    return table("clauses and operators", ("clause", "what it does", "example"), rows, sentences=True)


def _dialects(commands: Sequence[MagicCommand]) -> StaticPicture:
    rows = [(f"%%{row.magic}", row.title, word, doc) for row in DIALECTS.values() for word, doc in row.keywords.items()]
    return table("words of the other dialects", ("magic", "dialect", "word", "what it is"), rows, sentences=True)


def _problems(commands: Sequence[MagicCommand]) -> StaticPicture:
    rows = [(row.name, row.doc, row.remedy) for row in PROBLEMS.values()]
    return table("problems of texts", ("code", "what it means", "what to do"), rows, sentences=True)


def _others(commands: Sequence[MagicCommand]) -> StaticPicture:
    rows = [(", ".join((row.name, *row.also)), row.doc, row.example) for row in dict.fromkeys(FOREIGN_WORDS.values())]
    return table("words of other systems", ("word", "here", "example"), rows, sentences=True)


LISTS: dict[str, Callable[[Sequence[MagicCommand]], StaticPicture]] = {
    "clauses": _clauses,
    "windows": _windows,
    "aggregates": _aggregates,
    "functions": _functions,
    "methods": _methods,
    "magics": _overview,
    "dialects": _dialects,
    "others": _others,
    "problems": _problems,
}


def _entry(commands: Sequence[MagicCommand], name: str) -> str | None:
    entries = [
        *(clause_doc(row) for row in CLAUSES.values() if row is CLAUSE_OF_KEYWORD.get(name) or row.name == name),
        *(magic_doc(command) for command in commands if command.name == name),
        *(form_doc(command, name) for command in commands if any(map(_begins(name), command.says))),
        *(window_doc(row) for row in WINDOWS.values() if row.name == name),
        *(aggregate_doc(row) for row in AGGREGATES.values() if row.name == name),
        *(function_doc(row) for row in FUNCTIONS.values() if row.name.lower() == name),
        *(problem_doc(row) for row in PROBLEMS.values() if row.name == name),
        *(foreign_doc(row) for row in [foreign_word(name)] if row is not None),
        *(method_doc(row) for row in (methods_named(name) or [r for r in METHODS.values() if r.name.lower() == name])),
    ]
    return "\n\n".join(entries) or None


def magic_doc(command: MagicCommand) -> str:
    """Return summary, forms with a sentence each, and details of a magic."""
    forms = [f"{form}\n    {command.says[form]}" if form in command.says else form for form in command.usage]
    return "\n".join([command.summary, "", *forms, *(["", command.details] if command.details else [])])


def form_doc(command: MagicCommand, word: str) -> str:
    """Return the forms of a magic that begin with this word: ``%epl drop``."""
    return "\n".join(f"{form}\n  {said}" for form, said in command.says.items() if _begins(word)(form))


def _begins(word: str) -> Callable[[str], bool]:
    return lambda form: form.split()[1:2] == [word]


def _complete(host: NotebookHost, arguments: list[str]) -> Iterator[Offer]:
    if arguments:
        return
    methods = dict.fromkeys(row.short for row in METHODS.values())
    yield from ((name, "keyword") for name in (*LISTS, *(command.name for command in host.commands)))
    for names, kind in (
        (WINDOWS, "window"),
        (AGGREGATES, "aggregate"),
        (FUNCTIONS, "function"),
        (CLAUSE_OF_KEYWORD, "keyword"),
        (methods, "function"),
        (FOREIGN_WORDS, "keyword"),
    ):
        yield from ((name, kind) for name in names)


HELP = Subcommand(
    "help",
    lambda host, arguments: help_text(host.commands, " ".join(arguments)),
    {"%epl help [TOPIC]": "This list; what a word, window, function or magic is."},
    _complete,
)
