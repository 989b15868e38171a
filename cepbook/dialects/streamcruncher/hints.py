"""Diagnostics for the place where the parser of running queries stops, with hints for typical mistakes."""

from __future__ import annotations

from lark import Lark
from lark.exceptions import UnexpectedToken

from cepbook.dialects.streamcruncher.lexer import DURATION_UNITS, RESERVED_WORDS
from cepbook.errors import Diagnostic, Span, alternatives, nearest_name
from cepbook.lang.plan.cycles import STATUS
from cepbook.lang.syntax.reader.hint_rows import Hint, first_hint
from cepbook.lang.syntax.reader.lexer import StatementTokens
from cepbook.lang.syntax.reader.parse_failure import ParseFailure

_NAMES = {"NAME": "a name", "NUMBER": "a number", "UNIT": "a time unit", "$END": "the end of the query"}
_NAMES |= {"ROW_STATUS": f"`{STATUS}`", "UPDATE_GROUP": "`with update group`"}
_OPERATORS = {"==": "compare with a single =", "&&": "write and", "||": "write or", "!": "write not"}
_MISSING = {
    "select": "say what to select, for example * or the names of columns",
    "from": "name a stream with a partition, or a table, after from",
    "where": "write a condition after where",
    "having": "write a condition after having",
    "by": "write an expression after by",
    "as": "write a name after as",
    "on": "name the column that identifies events",
    "when": "write present(…) after when",
}
# Hints for the word before the failure, which needs a name or a number
_FORMS = {
    "last": "say how many, or how long: last 5, last 5 seconds",
    "latest": "say how many: latest 5",
    "random": "say how many: random 5",
    "highest": "say how many, and of what: highest 5 using column",
    "lowest": "say how many, and of what: lowest 5 using column",
    "limit": "limit takes a number of rows: limit 10",
    "offset": "offset takes a number of rows: limit 10 offset 20",
    "first": "first takes a number of rows: first 10",
    "max": "max takes a number of rows: last 5 seconds max 3",
    "group": "write group by",
    "order": "write order by",
    "pinned": "write with pinned and aggregates: with pinned count(id) as c",
    "case": "write case when condition then value end",
}
_NEED_A_VALUE = frozenset("and or not = < > + - * / % <= >= != <> like between in is".split())
_AFTER_A_NAME = frozenset(", . from = < > <= >= != <> + - * / %".split())
_AFTER_FROM = frozenset(("where", "group", "order", "limit"))
_AFTER_A_PARTITION = _AFTER_FROM | {"as", "correlate"}
_PARTS = "a partition has its parts in this order: partition by columns store window with aggregates where condition"
_CLAUSES = "a query has its clauses in this order: select, from, where, group by, having, order by, limit"
# Hints for places where the grammar accepts only these terminals
_ONLY = {
    frozenset(("PARTITION",)): _PARTS,
    frozenset(("BY", "STORE")): _PARTS,
    frozenset(("LAST", "LATEST", "RANDOM", "HIGHEST", "LOWEST")): (
        "say which rows to retain: last 5, last 5 seconds, latest 5, random 5, highest 5 using column"
    ),
    frozenset(("USING",)): "say of what: highest 2 using column",
    frozenset(("ONLY",)): "write entrance only",
    frozenset(("COMMA", "USING")): "an alert has its parts in this order: alert … using … when present(…)",
    frozenset(("CORRELATE",)): "name the column that identifies events: … as w correlate on id",
    frozenset(("AS",)): "give it a name: w.id as id",
    frozenset(("END",)): "a case ends with end",
    frozenset(("ON",)): "write correlate on and the column that identifies events",
    frozenset(("PRESENT",)): "say which are there together: when present(x and y)",
    frozenset(("BETWEEN", "IN", "LIKE")): "write is not null; not goes before between, in and like",
}
# Words that stand elsewhere, or that other languages have
_ELSEWHERE = {
    "pinned": "pinned goes before the aggregates: with pinned count(id) as c",
    "entrance": "entrance only goes before the name: count(id) entrance only as c",
    "with": _PARTS,
    "descending": "write desc",
    "ascending": "write asc",
    "having": "having goes after group by",
    **dict.fromkeys(
        "inner outer left right full cross join union minus intersect".split(),
        "streams are joined by commas, with conditions in where",
    ),
}


def diagnose(error: UnexpectedToken, piece: StatementTokens, parser: Lark) -> Diagnostic:
    """Return the diagnostic of a parse that stopped in `piece`."""
    spelled = {terminal.name: terminal.pattern.value for terminal in parser.terminals}
    tokens = piece.tokens
    if not tokens:
        return Diagnostic("syntax", "there is no query", Span(0, 0), "a running query begins with select")
    stop = ParseFailure.of(error, tokens, spelled)
    if stop.ended:
        span, fact = Span(tokens[-1].end, tokens[-1].end), "the query ends too early"
    else:
        span, fact = Span(tokens[stop.at].start, tokens[stop.at].end), f"`{stop.found}` is not allowed here"
    if stop.text().startswith("$") and stop.text() != STATUS:
        return Diagnostic("syntax", f"unknown `{stop.found}`", span, f"did you mean `{STATUS}`?")
    expected = _expected(stop.accepted, spelled)
    message = f"{fact}, expected {expected}" if expected else fact
    return Diagnostic("syntax", message, span, first_hint(HINTS, stop))


def _expected(accepted: frozenset[str], spelled: dict[str, str]) -> str:
    if {"NAME", "NUMBER", "STRING"} <= accepted:
        return "an expression"
    texts = [_NAMES[name] for name in ("NAME", "UNIT", "NUMBER", "$END") if name in accepted]
    others = accepted - {"NAME", "UNIT", "NUMBER", "$END"}
    texts += sorted(_NAMES.get(name, f"`{spelled.get(name, name.lower())}`") for name in others)
    return alternatives(texts) if len(texts) <= 6 else ""


def _unit(stop: ParseFailure) -> str | None:
    close = nearest_name(stop.text(), DURATION_UNITS) if _is_word(stop) and stop.text() not in RESERVED_WORDS else None
    return None if close is None else f"did you mean {close}?"


def _quoted(stop: ParseFailure) -> str:
    return f'`{stop.text()}` is a keyword; a name like this is written in double quotes: "{stop.text()}"'


def _keyword_here(stop: ParseFailure) -> str | None:
    close = nearest_name(stop.text(), stop.words) if _is_word(stop) else None
    return None if close is None or close == stop.text() else f"did you mean {close}?"


def _keyword_before(stop: ParseFailure) -> str | None:
    before = stop.text(-1) if stop.kind(-1) == "word" else ""
    close = nearest_name(before, ("select", "from", "where", "partition", "store", "alert")) if before else None
    if close is None or close == before:
        return None
    return f"did you mean {close} instead of {stop.tokens[stop.at - 1].text}?"


def _is_word(stop: ParseFailure) -> bool:
    return stop.kind() == "word"


def _is_open(stop: ParseFailure) -> bool:
    return bool(stop.open_brackets())


def _is_closed(stop: ParseFailure) -> bool:
    return not stop.open_brackets()


_COLUMN = "aggregates of partitions take a column, such as count(id)"
_NOTHING = {*RESERVED_WORDS, ")", ""}  # what stands where a value is missing
HINTS = (
    Hint("text cannot be joined: select both values", here="||", accepts="FROM"),
    Hint("dots cannot stand for a part that is left out: write the part", here=".", after="."),
    *(Hint(text, here=sign) for sign, text in _OPERATORS.items()),
    Hint("aggregates go after with: with count(id) as c", after="(", accepts="UNIT"),
    Hint(_unit, accepts="UNIT"),
    Hint("remove the comma before it", before=",", here=_NOTHING),
    Hint("a comment is not closed: end it with */", here="/", after="*"),
    Hint(_quoted, here=RESERVED_WORDS, after=_AFTER_A_NAME, accepts="NAME"),
    *(Hint(text, before=word, here=_NOTHING) for word, text in _MISSING.items()),
    Hint(
        "an update group goes after highest or lowest 5 using column",
        before="update",
        here="group",
        refuses="UPDATE_GROUP",
    ),
    Hint("name the columns: with update group country, state", earlier="update", before="group"),
    *(Hint(text, before=word, refuses=("SELECT", "FROM")) for word, text in _FORMS.items()),
    Hint(
        lambda stop: f"write a value after {stop.text(-1)}",
        before=_NEED_A_VALUE,
        here=_NOTHING,
        when=lambda stop: stop.accepted not in _ONLY,
    ),
    Hint("windows by time are written last 5 seconds", earlier=("latest", "random"), here=DURATION_UNITS),
    Hint("max goes after a time: last 5 seconds max 3", here="max", accepts="UNIT"),
    Hint("write with update group and the columns", here="update", accepts="UPDATE_GROUP"),
    Hint(_COLUMN, before="(", here=("*", ")"), when=lambda stop: stop.accepted == {"NAME"}),
    Hint(f"write {STATUS} is new, is dead or is not dead", before=STATUS, accepts="IS"),
    Hint(f"write {STATUS} is new, is dead or is not dead", accepts="DEAD", refuses="NULL"),
    Hint("write a partition in brackets: (partition store last 5) as w", before="partition", here=("store", "by")),
    Hint(lambda stop: f"write first {stop.text()}", before="top", when=lambda stop: stop.text().isdigit()),
    Hint(f"did you mean `{STATUS}`?", earlier=STATUS[1:], here=("new", "dead")),
    Hint(
        "or goes between patterns: present(a) or present(b)",
        earlier=("(", "and", "not"),
        here="or",
        accepts="AND",
        refuses="OR",
    ),
    *(Hint(text, here=word) for word, text in _ELSEWHERE.items()),
    Hint(lambda stop: f"write self#{stop.text(1) or 'w'} as other", before="self", here="."),
    Hint(_keyword_here),
    Hint(_quoted, here=RESERVED_WORDS, accepts="NAME", when=_is_word),
    Hint(lambda stop: _ONLY.get(stop.accepted)),
    Hint("close the bracket ( with )", here={*_AFTER_A_PARTITION, ""}, when=_is_open),
    Hint(_CLAUSES, here=_AFTER_FROM, when=_is_closed),
    Hint("no ( is open here", here=")", when=_is_closed),
    Hint(_keyword_before),
    Hint("write is null or is not null; equality is written =", before="is", accepts="NULL"),
    Hint(f"there are {', '.join(DURATION_UNITS)}", accepts="UNIT", when=_is_word),
    Hint("a running query begins with select", when=lambda stop: stop.at == 0),
    Hint("a text has one query: run others by themselves", before=";", here="select"),
    Hint(lambda stop: f"read a stream through a partition: {stop.text(-1)} (partition store last 5) as w", here="#"),
    Hint("write the values in brackets: in (1, 2)", before="in", when=lambda stop: stop.accepted == {"LPAR"}),
    Hint("write a query in the brackets: exists (select …)", before="(", when=lambda stop: stop.accepted == {"SELECT"}),
    Hint("write limit 10 offset 20", here=",", accepts="OFFSET"),
    Hint(_PARTS, here="by", accepts="UNIT"),
    Hint(_COLUMN, earlier="(", here=("+", "-", "*", "/", "%"), accepts=("ENTRANCE", "RPAR")),
    Hint("a case ends with end", accepts="WHEN", when=lambda stop: "END" in stop.accepted),
    Hint("name the aggregate: count(id) as c", accepts="AS", when=lambda stop: "ENTRANCE" in stop.accepted),
    Hint(lambda stop: f"name it: self#{stop.text(-1)} as other", earlier="#", accepts="AS"),
    Hint("columns are separated by commas", accepts="FROM", when=_is_word),
    Hint("say which are there together: when present(x and y)", here="", accepts="WHEN"),
    Hint("write between low and high", here="", accepts="AND", refuses="OR", among="between"),
    Hint(_MISSING["from"], here="", accepts="FROM"),
)
