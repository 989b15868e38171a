"""Diagnostics for the place where the parser of running queries stops, with hints for typical mistakes."""

from __future__ import annotations

from lark import Lark
from lark.exceptions import UnexpectedToken

from cepbook.dialects.streamcruncher.lexer import DURATION_UNITS, RESERVED_WORDS
from cepbook.errors import Diagnostic, Span, nearest_name
from cepbook.lang.plan.cycles import STATUS
from cepbook.lang.syntax.reader.lexer import SourceToken, StatementTokens

_CLOSED = {"(": ")"}
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
    accepted = frozenset(error.accepts or ()) or frozenset(error.expected)
    spelled = {terminal.name: terminal.pattern.value for terminal in parser.terminals}
    tokens = piece.tokens
    if not tokens:
        return Diagnostic("syntax", "there is no query", Span(0, 0), "a running query begins with select")
    start = tokens[-1].end if error.token.type == "$END" else error.token.start_pos
    at = next((i for i, token in enumerate(tokens) if token.start == start), len(tokens))
    if at < len(tokens):
        span, fact = Span(tokens[at].start, tokens[at].end), f"`{tokens[at].text}` is not allowed here"
    else:
        span, fact = Span(tokens[-1].end, tokens[-1].end), "the query ends too early"
    if at < len(tokens) and tokens[at].text[0] == "$" and tokens[at].text.lower() != STATUS:
        return Diagnostic("syntax", f"unknown `{tokens[at].text}`", span, f"did you mean `{STATUS}`?")
    expected = _expected(accepted, spelled)
    message = f"{fact}, expected {expected}" if expected else fact
    return Diagnostic("syntax", message, span, _hint(tokens, at, accepted, spelled))


def _expected(accepted: frozenset[str], spelled: dict[str, str]) -> str:
    if {"NAME", "NUMBER", "STRING"} <= accepted:
        return "an expression"
    texts = [_NAMES[name] for name in ("NAME", "UNIT", "NUMBER", "$END") if name in accepted]
    others = accepted - {"NAME", "UNIT", "NUMBER", "$END"}
    texts += sorted(_NAMES.get(name, f"`{spelled.get(name, name.lower())}`") for name in others)
    if not texts or len(texts) > 6:
        return ""
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"


def _hint(tokens: tuple[SourceToken, ...], at: int, accepted: frozenset[str], spelled: dict[str, str]) -> str | None:
    before, here = _word(tokens, at - 1), _word(tokens, at)
    if here == "||" and "FROM" in accepted:
        return "text cannot be joined: select both values"
    if here == "." == _word(tokens, at + 1):
        return "dots cannot stand for a part that is left out: write the part"
    if here in _OPERATORS:
        return _OPERATORS[here]
    if "UNIT" in accepted and _word(tokens, at + 1) == "(":
        return "aggregates go after with: with count(id) as c"
    if "UNIT" in accepted and here and tokens[at].kind == "word" and here not in RESERVED_WORDS:
        close = nearest_name(here, DURATION_UNITS)
        if close is not None:
            return f"did you mean {close}?"
    if before == "," and (here in RESERVED_WORDS or here == ")" or at >= len(tokens)):
        return "remove the comma before it"
    if here == "/" and _word(tokens, at + 1) == "*":
        return "a comment is not closed: end it with */"
    if here in RESERVED_WORDS and _word(tokens, at + 1) in _AFTER_A_NAME and "NAME" in accepted:
        return _quoted(here)
    if before in _MISSING and (at >= len(tokens) or here in RESERVED_WORDS or here in _CLOSED.values()):
        return _MISSING[before]
    if before == "update" and here == "group" and "UPDATE_GROUP" not in accepted:
        return "an update group goes after highest or lowest 5 using column"
    if before == "group" and _word(tokens, at - 2) == "update":
        return "name the columns: with update group country, state"
    if before in _FORMS and not accepted & {"SELECT", "FROM"}:
        return _FORMS[before]
    nothing = at >= len(tokens) or here in RESERVED_WORDS or here in _CLOSED.values()
    if before in _NEED_A_VALUE and accepted not in _ONLY and nothing:
        return f"write a value after {before}"
    if here in DURATION_UNITS and _word(tokens, at - 2) in ("latest", "random"):
        return "windows by time are written last 5 seconds"
    if here == "max" and "UNIT" in accepted:
        return "max goes after a time: last 5 seconds max 3"
    if here == "update" and "UPDATE_GROUP" in accepted:
        return "write with update group and the columns"
    if here in ("*", ")") and before == "(" and accepted == {"NAME"}:
        return "aggregates of partitions take a column, such as count(id)"
    if (before == STATUS and "IS" in accepted) or ("DEAD" in accepted and "NULL" not in accepted):
        return f"write {STATUS} is new, is dead or is not dead"
    if here in ("store", "by") and before == "partition":
        return "write a partition in brackets: (partition store last 5) as w"
    if here.isdigit() and before == "top":
        return f"write first {here}"
    if _word(tokens, at - 2) == STATUS[1:] and here in ("new", "dead"):
        return f"did you mean `{STATUS}`?"
    if here == "or" and _word(tokens, at - 2) in ("(", "and", "not") and "AND" in accepted and "OR" not in accepted:
        return "or goes between patterns: present(a) or present(b)"
    if here in _ELSEWHERE:
        return _ELSEWHERE[here]
    if before == "self" and here == ".":
        return f"write self#{_word(tokens, at + 1) or 'w'} as other"
    if here and tokens[at].kind == "word":
        words = [spelled[name] for name in accepted if name in spelled and spelled[name][0].isalpha()]
        close = nearest_name(here, words)
        if close is not None and close != here:
            return f"did you mean {close}?"
        if here in RESERVED_WORDS and "NAME" in accepted:
            return _quoted(here)
    if accepted in _ONLY:
        return _ONLY[accepted]
    opened = _open(tokens, at)
    if opened is not None and (at >= len(tokens) or here in _AFTER_A_PARTITION):
        return "close the bracket ( with )"
    if opened is None and here in _AFTER_FROM:
        return _CLAUSES
    if here == ")" and opened is None:
        return "no ( is open here"
    if before and at >= 1 and tokens[at - 1].kind == "word":
        close = nearest_name(before, ("select", "from", "where", "partition", "store", "alert"))
        if close is not None and close != before:
            return f"did you mean {close} instead of {tokens[at - 1].text}?"
    return _place_hint(tokens, at, accepted)


def _quoted(word: str) -> str:
    return f'`{word}` is a keyword; a name like this is written in double quotes: "{word}"'


def _place_hint(tokens: tuple[SourceToken, ...], at: int, accepted: frozenset[str]) -> str | None:
    before, here = _word(tokens, at - 1), _word(tokens, at)
    if before == "is" and "NULL" in accepted:
        return "write is null or is not null; equality is written ="
    if "UNIT" in accepted and here and tokens[at].kind == "word":
        return f"there are {', '.join(DURATION_UNITS)}"
    if at == 0:
        return "a running query begins with select"
    if here == "select" and before == ";":
        return "a text has one query: run others by themselves"
    if here == "#":
        return f"read a stream through a partition: {before} (partition store last 5) as w"
    if accepted == {"LPAR"} and before == "in":
        return "write the values in brackets: in (1, 2)"
    if accepted == {"SELECT"} and before == "(":
        return "write a query in the brackets: exists (select …)"
    if here == "," and "OFFSET" in accepted:
        return "write limit 10 offset 20"
    if here == "by" and "UNIT" in accepted:
        return _PARTS
    if here and _word(tokens, at - 2) == "(" and {"ENTRANCE", "RPAR"} & accepted and here in "+-*/%":
        return "aggregates of partitions take a column, such as count(id)"
    if {"WHEN", "END"} <= accepted:
        return "a case ends with end"
    if {"AS", "ENTRANCE"} <= accepted:
        return "name the aggregate: count(id) as c"
    if _word(tokens, at - 2) == "#" and "AS" in accepted:
        return f"name it: self#{before} as other"
    if at < len(tokens):
        return "columns are separated by commas" if "FROM" in accepted and tokens[at].kind == "word" else None
    if "WHEN" in accepted:
        return "say which are there together: when present(x and y)"
    if "AND" in accepted and "OR" not in accepted and any(token.text.lower() == "between" for token in tokens):
        return "write between low and high"
    return _MISSING["from"] if "FROM" in accepted else None


def _word(tokens: tuple[SourceToken, ...], at: int) -> str:
    return tokens[at].text.lower() if 0 <= at < len(tokens) else ""


def _open(tokens: tuple[SourceToken, ...], at: int) -> SourceToken | None:
    stack: list[SourceToken] = []
    for token in tokens[:at]:
        if token.kind == "(":
            stack.append(token)
        elif token.kind == ")" and stack:
            stack.pop()
    return stack[-1] if stack else None
