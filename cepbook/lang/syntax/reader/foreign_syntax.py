"""Hints for constructs of other languages and for small slips, by the words at which the parser stops."""

from __future__ import annotations

from cepbook.errors import nearest_name
from cepbook.lang.registry.foreign_words import FOREIGN_TYPES, foreign_word
from cepbook.lang.registry.windows import WINDOWS
from cepbook.lang.syntax.reader.lexer import TIME_UNITS
from cepbook.lang.syntax.reader.parse_failure import BRACKETS, CLAUSE_KEYWORDS, ParseFailure
from cepbook.lang.types import BY_NAME

CREATABLE_KINDS = ("schema", "window", "table", "variable", "context", "index", "expression")
CASE_HINT = "write case when … then … else … end"
OUTPUT_SELECTORS = ("snapshot", "last", "first", "all")


# What stands behind a stream in other systems, by the first word
AFTER_A_STREAM = {
    "cross": "write a comma between the streams: from A#keepall a, B#keepall b",
    "natural": "write the condition: from A#keepall a inner join B#keepall b on a.id = b.id",
    "asof": "the latest of each key is #unique(key): from A a unidirectional, B#unique(key) b where a.key = b.key",
    "lateral": "a stream has no lateral: join, or read a property of events with Order[items]",
    "emit": "leave emit out: every change is delivered, and output says when",
    "groupby": "write `group by`",
    "orderby": "write `order by`",
    "window": "write the window behind the event type: from Tick#length(10)",
    "range": "write the window behind the event type: from Tick#time(10 min)",
    "rows": "write the window behind the event type: from Tick#length(10)",
    "for": "a statement reads the present; the past is read by a replay",
    "qualify": "write having",
    "sample": "write the window #random(100)",
    "tablesample": "write the window #random(100)",
}


def alias_hint(alias: str, word: str) -> str | None:
    """Return a hint for two words behind a stream, of which the first was read as its alias."""
    for text in (word, alias):
        if text.lower() in AFTER_A_STREAM:
            return AFTER_A_STREAM[text.lower()]
    for text in (alias, word):
        close = nearest_name(text, (*CLAUSE_KEYWORDS, "inner", "left", "right", "full", "unidirectional"))
        if close is not None:
            return f"did you mean {close} instead of {text}?"
    return "a stream has one alias"


def foreign_syntax_hint(stop: ParseFailure) -> str | None:
    """Return a hint where SQL, Java or Python would continue, or None."""
    return (
        _call_hint(stop)
        or _sql_hint(stop)
        or _name_hint(stop)
        or _create_hint(stop)
        or _annotation_hint(stop)
        or _pattern_hint(stop)
        or _from_hint(stop)
        or _output_hint(stop)
        or _value_hint(stop)
    )


def _call_hint(stop: ParseFailure) -> str | None:
    """Return a hint for a call whose name is a keyword here, such as ``hour(at)``, or whose arguments are words."""
    word, before = stop.text(), stop.text(-1)
    if stop.kind(1) == "(" and (row := foreign_word(word, "call")) is not None:
        return row.hint(stop.arguments(stop.at + 1)[0])
    if word in TIME_UNITS and before == "(" and stop.text(-2) == "extract" and stop.text(1) == "from":
        row = foreign_word(TIME_UNITS[word], "call")
        _, behind = stop.arguments(stop.at - 1)
        return None if row is None else row.hint([stop.written(stop.at + 2, behind - 1)])
    if word in TIME_UNITS and before == "(" and (row := foreign_word(stop.text(-2), "call")) is not None:
        return row.hint(stop.arguments(stop.at - 1)[0])
    if stop.kind() == ":" and stop.kind(2) == "(" and (row := foreign_word(stop.text(1), "call")) is not None:
        return row.hint(stop.arguments(stop.at + 2)[0])
    if stop.kind() == "(" and before == "group" and stop.text(-2) == "within":
        opening = next((i for i in range(stop.at - 3, -1, -1) if stop.tokens[i].kind == "("), 0)
        fraction, (ordered, _) = stop.written(opening + 1, stop.at - 3), stop.arguments(stop.at)
        value = ordered[0].split(" by ")[-1] if ordered else "price"
        return f"write `percentile({value}, 100 * {fraction})`"
    return None


def _interval_hint(stop: ParseFailure) -> str | None:
    """Return a hint for ``interval '5' minute``."""
    if stop.text(-1) != "interval" or stop.kind() not in ("STRING", "NUMBER"):
        return None
    period = stop.found.strip("'\"")
    period += f" {stop.text(1)}" if stop.text(1) in TIME_UNITS else ""
    words = [token.text.lower() for token in stop.tokens[: stop.at]]
    for word in words if "group" in words else ():
        row = foreign_word(word, "window")
        if row is not None or word in WINDOWS:
            doc = f"write #{word}({period})" if row is None else row.doc
            return f"it is a data window behind the event type: {doc}"
    return f"write `{period}`"


def _sql_hint(stop: ParseFailure) -> str | None:
    word, before = stop.text(), stop.text(-1)
    words = [token.text.lower() for token in stop.tokens[: stop.at]]
    if word == "union" or before == "union":
        return "insert both into one stream: insert into Both select …; insert into Both select …"
    if word in ("within", "for") and "pattern" in words and stop.kind(1) == "NUMBER" and stop.open_brackets():
        return f"write `where timer:within({stop.written(stop.at + 1, stop.at + 3)})`"
    if stop.kind() == "(" and before in FOREIGN_TYPES | BY_NAME.keys() and "schema" in words:
        return f"a type has no size: write `{FOREIGN_TYPES.get(before, before)}`"
    if stop.kind() == "#" and words[:1] == ["on"] and "select" in words:
        return "on … select reads a named window or a table; a stream is joined: from A unidirectional, B#time(10 min)"
    if (word == "values" and words[:2] == ["insert", "into"]) or before == "values":
        return f'write events in a cell %%events, or cep.send("{stop.tokens[min(2, len(stop.tokens) - 1)].text}", …)'
    return _interval_hint(stop) or _clause_hint(stop, words)


# What other languages write between two values, or where a statement begins
INFIX = {
    "ilike": "write x.toLowerCase() like 'a%'",
    "rlike": "write regexp",
    "matches": "write regexp",
    "similar": "write regexp",
    "contains": "contains is a method: write symbol.contains('A')",
    "startswith": "write symbol.startsWith('A')",
}
BEGINNINGS = {
    "from": "select goes before from: select symbol from Tick",
    "define": "write create schema",
    "partition": "write create context PerKey partition by key from Tick, then context PerKey select …",
    "rule": "a rule is a statement: select * from Tick(price > 1)",
    "drop": "%epl drop NAME removes a statement or what it creates",
    "alter": "run the cell that creates it again: that replaces it",
    "explain": "write %epl show plan NAME",
    "describe": "write %epl show NAME",
    "show": "write %epl list",
    "declare": "write create variable double limit = 10",
}
SETS = ("except", "intersect", "minus")


def _clause_hint(stop: ParseFailure, words: list[str]) -> str | None:
    word, before = stop.text(), stop.text(-1)
    if stop.at == 0 and word in BEGINNINGS:
        return BEGINNINGS[word]
    if word in INFIX and stop.at and stop.kind(-1) in ("word", "tick", "STRING", ")"):
        return INFIX[word]
    if word == "window" and stop.text(1) in WINDOWS and stop.kind(2) == "(":
        inside = stop.arguments(stop.at + 2)[0]
        periods = [text.removeprefix("size ").removeprefix("advance by ") for text in inside]
        return f"write the window behind the event type: #{stop.text(1)}({', '.join(periods)})"
    if word == "table" and stop.kind(1) == "(" and before == "from":
        named = [row for token in stop.tokens[stop.at :] if (row := foreign_word(token.text, "window")) is not None]
        return f"name the event type and its data window: {named[0].doc}" if named else None
    if before in SETS or word in SETS:
        return "a query reads streams, not sets: where not exists (select * from Quote#keepall where …)"
    if "system_time" in words:
        return AFTER_A_STREAM["for"]
    if before == "fetch" and stop.kind(1) == "NUMBER":
        return f"write limit {stop.text(1)}"
    if before == "watermark":
        return 'leave the watermark out: lateness is an option of the replay, cep.replay(…, lateness="5 s")'
    if word == "qualify":
        return AFTER_A_STREAM["qualify"]
    if before == "f" and stop.kind() == "STRING":
        return "join texts with ||: symbol || ' is late'"
    if before == "this" and "pattern" in words:
        return "leave it out: -> puts the events in order"
    if words[:1] == ["create"] and (word == "or" or before == "if"):
        return "leave it out: what a cell creates is replaced when the cell runs again"
    if words[:2] == ["create", "schema"] and word == "not":
        return "leave not null out: every property may be null"
    if words[:2] == ["create", "table"] and before == "as" and word == "select":
        return f"write insert into {stop.tokens[2].text} select …"
    return None


def _name_hint(stop: ParseFailure) -> str | None:
    """Return a hint for a name with a blank, a dot or a sign, which stands in backticks, and for Python's values."""
    before = stop.tokens[stop.at - 1] if stop.at else None
    if stop.ended:
        return None
    token = stop.tokens[stop.at]
    touching = before is not None and before.end == token.start
    if token.kind == "NUMBER" and touching and before is not None and before.kind == "word":
        return f"a name with signs stands in backticks: `{before.text}{token.text}`"
    if token.kind == "[" and (stop.text(-1) in ("select", ",", "where", "by", "and") or stop.kind(-1) in "=<>"):
        inside, _ = stop.arguments(stop.at)
        return f"a name with a blank stands in backticks: `{' '.join(inside)}`"
    if stop.text() in CLAUSE_KEYWORDS and stop.text(-1) in ("select", ",") and not stop.open_brackets():
        if (
            stop.text() in ("order", "group")
            and stop.kind(1) == "word"
            and stop.text(1) not in (*CLAUSE_KEYWORDS, "as", "by")
        ):
            return f"a name with a blank stands in backticks: `{stop.written(stop.at, stop.at + 2)}`"
        if stop.text(1) in (",", "from", "as"):
            return f"{stop.text()} is a keyword; as a name write it in backticks: `{stop.found}`"
    if token.kind == "STRING" and touching and before is not None and before.kind == "STRING":
        return f'write `"{before.text[1:-1]}\'{token.text[1:-1]}"`'
    if stop.open_brackets() and stop.open_brackets()[-1].kind == "{" and stop.text(1) == "}" and token.kind == "word":
        return f"a Python variable is written `:{token.text}`"
    at_sign = token.kind == "@" and stop.kind(1) == "word" and before is not None
    if at_sign or (token.kind == "%" and stop.text(1) in ("s", "d", "(")):
        return "a Python variable is written with a colon, such as `:limit`"
    return None


def _create_hint(stop: ParseFailure) -> str | None:
    before = stop.text(-1)
    if stop.text(-2) == "create" and stop.words == ("schema",) and stop.kind() in ("word", "tick"):
        close = nearest_name(before, CREATABLE_KINDS)
        if close or before == "var":
            return f"did you mean create {close if close else 'variable'}?"
        if "select" in [token.text.lower() for token in stop.tokens[stop.at :]]:
            return f"a stream is made by the statement that fills it: insert into {stop.found} select …"
        if stop.text(1) in ("(", "as"):
            return f"an event type is a schema: create schema {stop.found} (…)"
        return f"create makes a {', '.join(CREATABLE_KINDS[:-1])} or {CREATABLE_KINDS[-1]}"
    if stop.kind() == "{" and stop.text(-2) == "schema":
        return f"write properties in parentheses: create schema {stop.tokens[stop.at - 1].text} (x int)"
    words = [token.text.lower() for token in stop.tokens]
    if stop.ended and words[:2] == ["create", "window"]:
        return "say which events it holds: as Tick"
    if words[: stop.at] == ["create", "index"] and stop.text() == "on":
        return "name the index: create index NAME on …"
    return None


def _annotation_hint(stop: ParseFailure) -> str | None:
    if stop.text(-2) == "@" and stop.kind() in ("STRING", "="):
        return f"write @{stop.tokens[stop.at - 1].text}('…')"
    first = stop.tokens[0].kind == "@" and not stop.open_brackets()
    if first and stop.kind() == "," and all(t.text.lower() != "select" for t in stop.tokens[: stop.at]):
        return "write no comma after an annotation" if stop.text(-1) == ")" or stop.text(-2) == "@" else None
    return None


def _pattern_hint(stop: ParseFailure) -> str | None:
    if stop.text(-1) == "pattern" and stop.kind() != "[" and "from" in stop.clauses_before():
        return "write the pattern in brackets: pattern [ … ]"
    if stop.text() == "pattern" and stop.text(-1) in ("from", "join") and stop.kind(1) != "[":
        return "write the pattern in brackets: pattern [ … ]"
    words = [token.text.lower() for token in stop.tokens[: stop.at]]
    opened = next((i for i, word in enumerate(words) if word == "pattern" and words[i + 1 : i + 2] == ["["]), None)
    if opened is None or "[" not in [bracket.kind for bracket in stop.open_brackets()]:
        return None
    if stop.kind() == "," and len(stop.open_brackets()) == 1:
        return "join parts of a pattern with ->, and, or"
    if stop.text(-2) == ":" and stop.text(-3) == "timer" and stop.kind() in ("NUMBER", "word"):
        return f"write parameters in parentheses: timer:{stop.text(-1)}({stop.found} …)"
    place = len(words) - words[::-1].index("timer") if "timer" in words else 0
    if place and words[place : place + 1] == ["."]:
        return f"write timer:{words[place + 1]}" if place + 1 < len(words) else None
    return None


def _from_hint(stop: ParseFailure) -> str | None:
    if stop.text() == "(" and stop.text(-1) == "using":
        return "write on a.x = b.x"
    if stop.text() == "(" and stop.text(-1) == "from":
        return "a from-clause names streams: insert into X select …, then select … from X"
    if stop.text() == "(" and nearest_name(stop.text(-1), ["match_recognize"]):
        return "did you mean match_recognize?"
    if stop.text() == "pattern" and "measures" in [t.text.lower() for t in stop.tokens[: stop.at]]:
        return "name the measure: A.x as NAME" if stop.text(-1) not in ("measures", ",") else None
    return None


def _output_hint(stop: ParseFailure) -> str | None:
    words = [token.text.lower() for token in stop.tokens[: stop.at]]
    if "output" not in words or stop.open_brackets():
        return None
    since = words[len(words) - words[::-1].index("output") :]
    if stop.text() in OUTPUT_SELECTORS and since[:1] == ["every"]:
        return f"write output {stop.text()} every …"
    if stop.text() == "each" and since in ([], *([rate] for rate in OUTPUT_SELECTORS)):
        return "write every"
    if stop.kind() == "NUMBER" and len(since) == 1 and since[0] in OUTPUT_SELECTORS:
        return f"write output {since[0]} every {stop.found} {stop.text(1) or 'events'}"
    return None


def _value_hint(stop: ParseFailure) -> str | None:
    word, before = stop.text(), stop.text(-1)
    if word == "?" or (word == ":" and "?" in stop.words + tuple(t.kind for t in stop.tokens[: stop.at])):
        return CASE_HINT
    if stop.at == 0 and word == "with":
        return "EPL has no with: insert into X select … makes a stream X, which other statements read"
    if stop.kind() == "NUMBER" and before == "top" and stop.text(-2) == "select":
        return f"write limit {stop.found} after the other clauses"
    if word == "(" and before == "filter" and stop.text(-2) == ")":
        return "write the filter as an argument: count(*, filter: x > 1), sum(x, filter: x > 1)"
    if before == "?" and word not in (".", "?"):
        return CASE_HINT
    if word == "instanceof":
        return "write instanceof(x, string)"
    if word == ":" and ":" in (before, stop.text(1)):
        return "write cast(x, long)"
    if word == ":" and stop.text(1) == "=":
        return "write ="
    if word == "over" or (word == "(" and before == "over" and stop.text(-2) == ")"):
        return "EPL has no over: group by makes groups, avg(x, group_by: y) one for a single aggregate"
    if before == "in" and stop.kind() in ("NUMBER", "STRING") and stop.text(1) == ",":
        return "write the values in parentheses: in (1, 2)"
    if word == "," and ":" in stop.words + tuple(_open_range(stop)):
        return "write a range with a colon, [1:5], or a list in parentheses, (1, 5)"
    return None


def _open_range(stop: ParseFailure) -> list[str]:
    """Return a colon if a range after ``in`` is open and has no upper bound yet."""
    brackets = stop.open_brackets()
    if not brackets or brackets[-1].kind not in BRACKETS:
        return []
    at = stop.tokens.index(brackets[-1])
    behind = at > 0 and stop.tokens[at - 1].text.lower() == "in"
    return [":"] if behind and brackets[-1].kind == "[" and stop.at == at + 2 else []
