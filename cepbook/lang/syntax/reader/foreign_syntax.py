"""Hints for constructs of other languages and for small slips, by the words at which the parser stops."""

from __future__ import annotations

from itertools import pairwise

from cepbook.errors import alternatives, nearest_name
from cepbook.lang.registry.foreign_words import FOREIGN_TYPES, foreign_word
from cepbook.lang.registry.windows import WINDOWS
from cepbook.lang.syntax.reader.hint_rows import Hint, first_hint, keyword_hint
from cepbook.lang.syntax.reader.lexer import TIME_UNITS
from cepbook.lang.syntax.reader.parse_failure import CLAUSE_KEYWORDS, ParseFailure
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
    "define": "write create schema",
    "partition": "write create context PerKey partition by key from Tick, then context PerKey select …",
    "rule": "a rule is a statement: select * from Tick(price > 1)",
    "drop": "%epl drop NAME removes a statement or what it creates",
    "merge": "write on Quote as q merge W as w where w.symbol = q.symbol when matched then update set bid = q.bid",
    "set": 'on Tick set limit = 5 sets a variable at each event, cep.set("limit", 5) sets it once',
    "truncate": 'rows are deleted by a query: cep.query("delete from W")',
    "alter": "run the cell that creates it again: that replaces it",
    "explain": "write %epl show plan NAME",
    "describe": "write %epl show NAME",
    "show": "write %epl list",
    "declare": "write create variable double limit = 10",
}


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
        opening = _opening(stop, stop.at - 3)
        fraction, (ordered, _) = stop.written(opening + 1, stop.at - 3), stop.arguments(stop.at)
        value = ordered[0].split(" by ")[-1] if ordered else "price"
        return f"write `percentile({value}, 100 * {fraction})`"
    return None


def _interval_hint(stop: ParseFailure) -> str:
    """Return a hint for ``interval '5' minute``."""
    period = stop.found.strip("'\"")
    period += f" {stop.text(1)}" if stop.text(1) in TIME_UNITS else ""
    words = stop.words_before()
    if stop.kind(-2) in ("+", "-") and (moved := _moved_time(stop, stop.at - 2, period)) is not None:
        return moved
    for word in words[words.index("group") :] if "group" in words else ():
        row = foreign_word(word, "window")
        if row is not None or word in WINDOWS:
            doc = f"write #{word}({period}){_of_each_key(word)}" if row is None else row.doc
            return f"it is a data window behind the event type: {doc}"
    return f"write `{period}`"


def _opening(stop: ParseFailure, end: int) -> int:
    """Return the number of the last ``(`` up to token `end`; 0 if there is none."""
    return next((i for i in range(end, -1, -1) if stop.tokens[i].kind == "("), 0)


def _value_start(stop: ParseFailure, end: int) -> int:
    """Return the number of the first token of the name or call that ends before token `end`; -1: there is none."""
    start = end - 1
    if start > 0 and stop.tokens[start].kind == ")":
        start = _opening(stop, start) - 1
    while start > 1 and stop.tokens[start - 1].kind == ".":
        start -= 2
    return start if start >= 0 and stop.tokens[start].kind in ("word", "tick") else -1


def _value_before(stop: ParseFailure, end: int) -> str:
    """Return the text of the name or call that ends before token number `end`; empty if there is none."""
    start = _value_start(stop, end)
    return stop.written(start, end) if start >= 0 else ""


_COMPARED_TIMES = {">": "after", ">=": "after", "<": "before", "<=": "before"}


def _moved_time(stop: ParseFailure, sign: int, period: str) -> str | None:
    """Return a hint for a time to which a period is added, by the number of the sign: ``at > now() - …``."""
    start = _value_start(stop, sign)
    if start < 0:
        return None
    value = stop.written(start, sign)
    row = foreign_word(value.removesuffix("()"), "call") if value.endswith("()") else None
    value = value if row is None else row.forms[0]
    moved = f"{value}.{'plus' if stop.tokens[sign].kind == '+' else 'minus'}({period})"
    method = _COMPARED_TIMES.get(stop.tokens[start - 1].kind if start else "")
    other = _value_before(stop, start - 1) if method is not None else ""
    return f"write `{other}.{method}({moved})`" if other else f"write `{moved}`"


def _period_added(stop: ParseFailure) -> str | None:
    """Return a hint for ``at - 5 min``."""
    if stop.kind(-1) != "NUMBER" or stop.kind(-2) not in ("+", "-"):
        return None
    return _moved_time(stop, stop.at - 2, f"{stop.text(-1)} {stop.text()}")


def _over_hint(stop: ParseFailure) -> str:
    """Return a hint for ``f(x) over (…)``, by the function and by the frame."""
    closing = next((i for i in range(stop.at, -1, -1) if stop.tokens[i].kind == ")"), stop.at)
    ranked = _value_before(stop, closing + 1).partition("(")[0].lower() in ("rank", "dense_rank", "row_number", "ntile")
    behind = [token.text.lower() for token in stop.tokens[stop.at :]]
    if ranked and "partition" in behind:
        return "the three highest of each key are the data windows #groupwin(symbol)#sort(3, price desc)"
    if ranked:
        return "the three highest are the data window #sort(3, price desc)"
    for frame, window in (("rows", "the last 11 rows are #length(11)"), ("range", "the last hour is #time(1 hour)")):
        if frame in behind:
            grouped = ", and group by has the partitions" if "partition" in behind else ""
            return f"a frame is a data window behind the event type: {window}{grouped}"
    return _NO_OVER


def _from_first(stop: ParseFailure) -> str:
    """Return a hint for a statement that begins with ``from``."""
    if stop.text(1) in ("every", "not") or "->" in [token.kind for token in stop.tokens]:
        example = "select a.symbol from pattern [every a=Tick -> b=Tick(symbol = a.symbol)]"
        return f"select goes before from, and a pattern stands in brackets: {example}"
    into = "insert into Out " if any(token.text.lower() == "insert" for token in stop.tokens) else ""
    return f"select goes before from: {into}select symbol from Tick"


def _within_of_absence(stop: ParseFailure) -> str | None:
    """Return a hint for ``-> not B within 10 sec``: without an interval an absence is true at once."""
    start = max((i for i in range(stop.at) if stop.tokens[i].kind in ("->", "[")), default=0)
    if stop.tokens[start + 1].text.lower() != "not":
        return None
    absence, period = stop.written(start + 1, stop.at), stop.written(stop.at + 1, stop.at + 3)
    return f"write `(timer:interval({period}) and {absence})`"


def _blank_in_alias(stop: ParseFailure) -> str | None:
    """Return a hint for ``as 'the price'`` and ``as the price``."""
    if stop.kind() == "STRING" and stop.text(-1) == "as":
        return f"a name with a blank stands in backticks: `{stop.found[1:-1]}`"
    if stop.kind() == "word" and stop.text(-2) == "as" and stop.kind(-1) == "word":
        end = next(
            (
                i
                for i in range(stop.at, len(stop.tokens))
                if stop.tokens[i].kind != "word" or stop.tokens[i].text.lower() in CLAUSE_KEYWORDS
            ),
            len(stop.tokens),
        )
        if end > stop.at and "from" not in stop.words_before():
            return f"a name with a blank stands in backticks: `{stop.written(stop.at - 1, end)}`"
    return None


def _part_of_text(stop: ParseFailure) -> str | None:
    """Return a hint for ``symbol[0:3]`` and ``symbol[:3]``."""
    opening = next((i for i in range(stop.at, -1, -1) if stop.tokens[i].kind == "["), 0)
    value = _value_before(stop, opening)
    if not value or not stop.text(1).isdecimal():
        return None
    return f"write `{value}.substring({stop.written(opening + 1, stop.at) or 0}, {stop.text(1)})`"


def _field_of_time(stop: ParseFailure) -> str | None:
    """Return a hint for ``at.hour`` and ``at.dt.hour``."""
    row = foreign_word(TIME_UNITS.get(stop.text(), ""), "call")
    value = _value_before(stop, stop.at - 1).removesuffix(".dt")
    return row.hint([value]) if row is not None and value else None


def _cast_as(stop: ParseFailure) -> str | None:
    """Return a hint for ``try_cast(x as double)``."""
    opening = _opening(stop, stop.at)
    return f"write `cast({stop.written(opening + 1, stop.at)}, {stop.text(1)})`" if opening else None


def _position_in(stop: ParseFailure) -> str | None:
    """Return a hint for ``position('A' in symbol)``."""
    opening = _opening(stop, stop.at)
    if stop.tokens[opening - 1].text.lower() != "position":
        return None
    return f"write `{stop.found}.indexOf({stop.written(opening + 1, stop.at - 1)}) + 1`"


def _function_of_math(stop: ParseFailure) -> str | None:
    """Return a hint for ``math:round(x)``."""
    arguments = ", ".join(stop.arguments(stop.at + 2)[0])
    return f"write `Math.{stop.tokens[stop.at + 1].text}({arguments})`" if stop.kind(2) == "(" else None


def _window_call(stop: ParseFailure) -> str:
    """Return the window for ``window tumbling (size 5 min)``."""
    inside = [text for text in stop.arguments(stop.at + 2)[0] if not text.startswith(("grace", "retention"))]
    periods = [text.removeprefix("size ").removeprefix("advance by ") for text in inside]
    return f"write the window behind the event type: #{stop.text(1)}({', '.join(periods)}){_of_each_key(stop.text(1))}"


def _of_each_key(window: str) -> str:
    """Return what is to be added about a window whose contents elsewhere depend on the keys of ``group by``."""
    return "; #groupwin(key) before it gives each key its sessions" if window == "session" else ""


def _window_table(stop: ParseFailure) -> str | None:
    """Return the window for ``from table(tumble(…))``."""
    named = [row for token in stop.tokens[stop.at :] if (row := foreign_word(token.text, "window")) is not None]
    return f"name the event type and its data window: {named[0].doc}" if named else None


def _name_with_sign(stop: ParseFailure) -> str | None:
    """Return a hint for a name such as ``PM2.5``, whose number was read apart from it."""
    touches = stop.at and stop.kind(-1) == "word" and stop.tokens[stop.at - 1].end == stop.tokens[stop.at].start
    return f"a name with signs stands in backticks: `{stop.written(stop.at - 1, stop.at + 1)}`" if touches else None


def _name_in_brackets(stop: ParseFailure) -> str | None:
    if stop.text(-1) in ("select", ",", "where", "by", "and") or stop.kind(-1) in "=<>":
        return f"a name with a blank stands in backticks: `{' '.join(stop.arguments(stop.at)[0])}`"
    return None


def _keyword_as_column(stop: ParseFailure) -> str | None:
    if stop.open_brackets():
        return None
    named = stop.kind(1) == "word" and stop.text(1) not in (*CLAUSE_KEYWORDS, "as", "by")
    if stop.text() in ("order", "group") and named:
        return f"a name with a blank stands in backticks: `{stop.written(stop.at, stop.at + 2)}`"
    if stop.text(1) in (",", "from", "as"):
        return keyword_hint(stop.found)
    return None


def _quote_in_text(stop: ParseFailure) -> str | None:
    before, here = stop.tokens[stop.at - 1 : stop.at + 1] if stop.at else (None, None)
    if before is None or here is None or before.kind != "STRING" or before.end != here.start:
        return None
    return f'write `"{before.text[1:-1]}\'{here.text[1:-1]}"`'


def _kind_to_create(stop: ParseFailure) -> str:
    if stop.text(-1) in ("function", "procedure", "macro"):
        return f"write create expression {stop.found} {{x => x * 2}}, or register a Python function: cep.function"
    close = "variable" if stop.text(-1) == "var" else nearest_name(stop.text(-1), CREATABLE_KINDS)
    if close is not None:
        return f"did you mean create {close}?"
    if "select" in [token.text.lower() for token in stop.tokens[stop.at :]]:
        return f"a stream is made by the statement that fills it: insert into {stop.found} select …"
    if stop.text(1) in ("(", "as"):
        return f"an event type is a schema: create schema {stop.found} (…)"
    return f"create makes a {alternatives(CREATABLE_KINDS)}"


def _pattern_hint(stop: ParseFailure) -> str | None:
    """Return a hint within the brackets of a pattern."""
    words, brackets = stop.words_before(), stop.open_brackets()
    if not any(pair == ("pattern", "[") for pair in pairwise(words)) or all(item.kind != "[" for item in brackets):
        return None
    if stop.kind() == "," and len(brackets) == 1:
        return "join parts of a pattern with ->, and, or"
    if stop.text(-2) == ":" and stop.text(-3) == "timer" and stop.kind() in ("NUMBER", "word"):
        return f"write parameters in parentheses: timer:{stop.text(-1)}({stop.found} …)"
    after_timer = words[len(words) - words[::-1].index("timer") :] if "timer" in words else []
    return f"write timer:{after_timer[1]}" if after_timer[:1] == ["."] and len(after_timer) > 1 else None


def _output_hint(stop: ParseFailure) -> str | None:
    """Return a hint for the words of an output clause in another order."""
    words = stop.words_before()
    if "output" not in words or stop.open_brackets():
        return None
    since = words[len(words) - words[::-1].index("output") :]
    if stop.text() in OUTPUT_SELECTORS and since[:1] == ["every"]:
        return f"write output {stop.text()} every …"
    if len(since) == 0 and stop.kind() == "word" and stop.text(1) == "every":
        return "write output every …"
    if stop.text() == "each" and since in ([], *([rate] for rate in OUTPUT_SELECTORS)):
        return "write every"
    if stop.kind() == "NUMBER" and len(since) == 1 and since[0] in OUTPUT_SELECTORS:
        if stop.text(1) == "every":
            rate = " ".join(filter(None, (stop.text(2), stop.text(3)))) or "…"
            return f"the last {stop.found} rows are those of #length({stop.found}) with output snapshot every {rate}"
        return f"write output {since[0]} every {stop.found} {stop.text(1) or 'events'}"
    return None


def _is_braced_name(stop: ParseFailure) -> bool:
    return [bracket.kind for bracket in stop.open_brackets()][-1:] == ["{"]


def _wants_colon(stop: ParseFailure) -> bool:
    """Return whether a range after ``in`` is open and has no upper bound yet."""
    if ":" in stop.words:
        return True
    brackets = stop.open_brackets()
    at = stop.tokens.index(brackets[-1]) if brackets else 0
    return at > 0 and stop.tokens[at - 1].text.lower() == "in" and brackets[-1].kind == "[" and stop.at == at + 2


_BOTH_STREAMS = "insert both into one stream: insert into Both select …; insert into Both select …"
_NO_SETS = "a query reads streams, not sets: where not exists (select * from Quote#keepall where …)"
_NO_OVER = "EPL has no over: group by makes groups, avg(x, group_by: y) one for a single aggregate"
_SIZED = tuple(FOREIGN_TYPES | BY_NAME.keys())
_VALUE_ENDS = ("word", "tick", "STRING", ")")


def _values_hint(stop: ParseFailure) -> str:
    return f'write events in a cell %%events, or cep.send("{stop.tokens[min(2, len(stop.tokens) - 1)].text}", …)'


HINTS = (
    Hint(_call_hint),
    # SQL and other stream processors
    Hint(_BOTH_STREAMS, here="union"),
    Hint(_BOTH_STREAMS, before="union"),
    Hint(
        _within_of_absence,
        here=("within", "for"),
        among="pattern",
        when=lambda stop: stop.kind(1) == "NUMBER" and stop.open_brackets(),
    ),
    Hint(
        "write the window behind the event type: Quote#time(1 hour)",
        before="within",
        kind="NUMBER",
        when=lambda stop: not stop.open_brackets(),
    ),
    Hint(
        lambda stop: f"write `where timer:within({stop.written(stop.at + 1, stop.at + 3)})`",
        here=("within", "for"),
        among="pattern",
        when=lambda stop: stop.kind(1) == "NUMBER" and stop.open_brackets(),
    ),
    Hint(
        lambda stop: f"a type has no size: write `{FOREIGN_TYPES.get(stop.text(-1), stop.text(-1))}`",
        before=_SIZED,
        kind="(",
        among="schema",
    ),
    Hint(
        "on … select reads a named window or a table; a stream is joined: from A unidirectional, B#time(10 min)",
        kind="#",
        begins="on",
        among="select",
    ),
    Hint(_values_hint, here="values", begins="insert into"),
    Hint(_values_hint, before="values"),
    Hint(_interval_hint, before="interval", kind=("STRING", "NUMBER")),
    Hint(_from_first, here="from", when=lambda stop: stop.at == 0),
    *(Hint(text, here=word, when=lambda stop: stop.at == 0) for word, text in BEGINNINGS.items()),
    Hint(
        "a statement reads a stream: select symbol, avg(price) from Tick(price > 1) group by symbol",
        kind="word",
        after=(".", "["),
        when=lambda stop: stop.at == 0,
    ),
    Hint(_period_added, here=tuple(TIME_UNITS)),
    Hint("write the values in parentheses: symbol in ('A', 'B')", kind="[", earlier="isin"),
    Hint(
        'leave the watermark out: lateness is an option of the replay, cep.replay(…, lateness="5 s")',
        earlier="watermark",
    ),
    Hint(AFTER_A_STREAM["sample"], before=("sample", "tablesample", "bernoulli"), kind=("NUMBER", "(", "word")),
    Hint("write a sum for each value: sum(price, symbol = 'A') as a", before="pivot", here="("),
    Hint(AFTER_A_STREAM["lateral"], among=("lateral", "explode"), here="("),
    Hint("write group by rollup(symbol) or cube(symbol)", here="with", after=("rollup", "cube")),
    Hint("name the columns: select symbol, price", before="*", here=("exclude", "except", "replace", "rename")),
    Hint("name columns in the select-list: select price as p", here="(", begins="select", earlier="as"),
    Hint("write an outer join: from A left join B on a.x = b.x", before="+", here=")", earlier="("),
    Hint(_blank_in_alias, when=lambda stop: stop.clauses_before()[-1:] == ["select"]),
    Hint(_part_of_text, kind=":", when=lambda stop: [b.kind for b in stop.open_brackets()][-1:] == ["["]),
    Hint(_field_of_time, here=tuple(TIME_UNITS), before="."),
    Hint(_cast_as, here="as", when=lambda stop: "try_cast" in stop.words_before()),
    Hint(_position_in, before="in", kind=("word", "tick")),
    Hint(_function_of_math, kind=":", before="math"),
    Hint("write symbol.startsWith('A'), endsWith or matches", here="str", after="["),
    Hint("write is not: null is a value there", before="is", here="distinct"),
    Hint("write is: null is a value there", earlier="is", before="not", here="distinct"),
    Hint("write <=", here="!", after=">"),
    Hint("write >=", here="!", after="<"),
    Hint("write regexp", here="~"),
    Hint("write or: || joins texts", kind=("=", "<", ">", "!=", "<=", ">="), among="||"),
    Hint(
        "in EPL -> stands in patterns; a map has its value by m('key')",
        kind="->",
        when=lambda stop: "pattern" not in stop.words_before(),
    ),
    Hint(
        "write where timer:within(…) within the brackets: [every a=Tick -> b=Quote where timer:within(10 sec)]",
        kind=":",
        before="timer",
        when=lambda stop: not stop.open_brackets(),
    ),
    *(Hint(text, here=word, when=lambda s: s.at and s.kind(-1) in _VALUE_ENDS) for word, text in INFIX.items()),
    Hint(_window_call, here="window", after=WINDOWS, when=lambda stop: stop.kind(2) == "("),
    Hint(_window_table, before="from", here="table", after="("),
    Hint(_NO_SETS, before=("except", "intersect", "minus")),
    Hint(_NO_SETS, here=("except", "intersect", "minus")),
    Hint(AFTER_A_STREAM["for"], among="system_time"),
    Hint(lambda stop: f"write limit {stop.text(1)}", before="fetch", when=lambda stop: stop.kind(1) == "NUMBER"),
    Hint(
        'leave the watermark out: lateness is an option of the replay, cep.replay(…, lateness="5 s")',
        before="watermark",
    ),
    Hint(AFTER_A_STREAM["qualify"], here="qualify"),
    Hint("join texts with ||: symbol || ' is late'", before="f", kind="STRING"),
    Hint("leave it out: -> puts the events in order", before="this", among="pattern"),
    Hint("leave it out: what a cell creates is replaced when the cell runs again", begins="create", here="or"),
    Hint("leave it out: what a cell creates is replaced when the cell runs again", begins="create", before="if"),
    Hint("leave not null out: every property may be null", begins="create schema", here="not"),
    Hint(
        lambda stop: f"write insert into {stop.tokens[2].text} select …, or create a table and fill it by into table",
        begins="create table",
        before="as",
        here="select",
    ),
    # names and values
    Hint(_name_with_sign, kind="NUMBER"),
    Hint(_name_in_brackets, kind="["),
    Hint(_keyword_as_column, before=("select", ","), here=CLAUSE_KEYWORDS),
    Hint(_quote_in_text, kind="STRING"),
    Hint(lambda stop: f"a Python variable is written `:{stop.found}`", kind="word", after="}", when=_is_braced_name),
    Hint(
        "a Python variable is written with a colon, such as `:limit`",
        kind="@",
        when=lambda stop: stop.at and stop.kind(1) == "word",
    ),
    Hint("a Python variable is written with a colon, such as `:limit`", kind="%", after=("s", "d", "(")),
    # what is created
    Hint(_kind_to_create, earlier="create", kind=("word", "tick"), when=lambda stop: stop.words == ("schema",)),
    Hint(
        lambda stop: f"write properties in parentheses: create schema {stop.tokens[stop.at - 1].text} (x int)",
        earlier="schema",
        kind="{",
    ),
    Hint("say which events it holds: as Tick", here="", begins="create window"),
    Hint("name the index: create index NAME on …", here="on", when=lambda s: s.words_before() == ["create", "index"]),
    # annotations and patterns
    Hint(lambda stop: f"write @{stop.tokens[stop.at - 1].text}('…')", earlier="@", kind=("STRING", "=")),
    Hint(
        "write no comma after an annotation",
        kind=",",
        begins="@",
        when=lambda stop: (
            "select" not in stop.words_before()
            and not stop.open_brackets()
            and (stop.text(-1) == ")" or stop.text(-2) == "@")
        ),
    ),
    Hint(
        "write the pattern in brackets: pattern [ … ]",
        before="pattern",
        when=lambda stop: stop.kind() != "[" and "from" in stop.clauses_before(),
    ),
    Hint(
        "write the pattern in brackets: pattern [ … ]",
        before=("from", "join"),
        here="pattern",
        when=lambda stop: stop.kind(1) != "[",
    ),
    Hint(_pattern_hint),
    # streams
    Hint("write on a.x = b.x", before="using", here="("),
    Hint("a from-clause names streams: insert into X select …, then select … from X", before="from", here="("),
    Hint("did you mean match_recognize?", here="(", when=lambda s: nearest_name(s.text(-1), ["match_recognize"])),
    Hint(
        "name the measure: A.x as NAME",
        here="pattern",
        among="measures",
        when=lambda stop: stop.text(-1) not in ("measures", ","),
    ),
    Hint(_output_hint),
    # expressions
    Hint(CASE_HINT, here="?"),
    Hint(CASE_HINT, here=":", among="?"),
    Hint(
        "EPL has no with: insert into X select … makes a stream X, which other statements read",
        here="with",
        when=lambda stop: stop.at == 0,
    ),
    Hint(
        lambda stop: f"write limit {stop.found} after the other clauses", earlier="select", before="top", kind="NUMBER"
    ),
    Hint(
        "write the filter as an argument: count(*, filter: x > 1), sum(x, filter: x > 1)",
        earlier=")",
        before="filter",
        here="(",
    ),
    Hint(CASE_HINT, before="?", when=lambda stop: stop.text() not in (".", "?")),
    Hint("write instanceof(x, string)", here="instanceof"),
    Hint("write cast(x, long)", before=":", here=":"),
    Hint("write cast(x, long)", here=":", after=":"),
    Hint("write =", here=":", after="="),
    Hint(_over_hint, here="over"),
    Hint(_over_hint, earlier=")", before="over", here="("),
    Hint("write the values in parentheses: in (1, 2)", before="in", kind=("NUMBER", "STRING"), after=","),
    Hint("write a range with a colon, [1:5], or a list in parentheses, (1, 5)", here=",", when=_wants_colon),
)


def foreign_syntax_hint(stop: ParseFailure) -> str | None:
    """Return a hint where SQL, Java or Python would continue, or None."""
    return first_hint(HINTS, stop)
