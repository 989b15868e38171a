"""Diagnostics of text that is no Apama query, with hints in Apama's words."""

from __future__ import annotations

import re

from cepbook.errors import Diagnostic, Span, nearest_name

APAMA_KEYWORDS = {
    "all": "all Type(field = value, …): the events of a type that match; retain all: everything since the beginning",
    "and": "both conditions hold",
    "by": "partition by, group by: the keys",
    "equals": "join item in stream on left key equals right key",
    "event": "event Name { type field; … } declares an event type",
    "every": "within d every p: the window changes every p seconds; retain n every m: m items enter together",
    "false": "the boolean",
    "from": "from item in stream window select expression",
    "group": "group by keys: an aggregate for each group; groups that changed are delivered",
    "having": "having condition: which results are delivered",
    "in": "from item in stream",
    "join": "join item in stream window on key equals key",
    "not": "the condition does not hold",
    "on": "join … on left key equals right key",
    "or": "one of the conditions holds",
    "partition": "partition by keys: a window of its own for each key",
    "retain": "retain n: the last n items; retain all: everything since the beginning",
    "rstream": "select rstream: the items that leave the window",
    "select": "select expression: the result for each item that enters, or for the whole window",
    "stream": "stream<type> name := query; names a stream",
    "true": "the boolean",
    "unique": "with unique key: of the items in the window only the newest of each key is seen",
    "where": "where condition: which items in the window count",
    "with": "with unique key",
    "within": "within d: the items of the last d seconds",
    "xor": "one of the conditions holds, not both",
}

_ORDER = "from … in …, window, second stream, where, group by, having, select"
_WINDOW = "the parts of a window come in this order: partition by, within, every, retain, with unique"
_UNSUPPORTED = {
    "monitor": "monitors",
    "on": "event listeners",
    "action": "actions",
    "query": "Apama queries (inputs, find)",
    "spawn": "monitors",
    "emit": "actions",
    "send": "actions",
    "route": "actions",
    "print": "actions",
    "log": "actions",
}
_NAMED = {
    "NAME": "a name",
    "SEMICOLON": "`;`",
    "RPAR": "`)`",
    "LPAR": "`(`",
    "RBRACE": "`}`",
    "LBRACE": "`{`",
    "MORETHAN": "`>`",
    "LESSTHAN": "`<`",
    "__ANON_0": "`:=`",
}


_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_WORD = re.compile(r"\w+|\S")


def diagnose(text: str, span: Span, current: str, expected: set[str]) -> Diagnostic:
    """Return the diagnostic for the word `current` at `span`, where the grammar accepts one of `expected`."""
    blank = _COMMENT.sub(lambda m: m[0] if m[0][0] == '"' else " " * len(m[0]), text)
    words = list(_WORD.finditer(blank, 0, span.start))
    before = [word.group() for word in words]
    earlier = _previous_word_error(current, before)
    if earlier is not None:
        return Diagnostic("syntax-error", earlier[0], Span(*words[-1].span()), earlier[1])
    message, hint = _common_mistake(current, before, text[span.end :])
    if message is None:
        message = f"found `{current}`" if current else "the text ends here"
        expected_words = _expected_text(expected)
        message += f", expected {expected_words}" if expected_words else ""
        hint = _hint(current, before, expected)
    return Diagnostic("syntax-error", message, span, hint)


def _previous_word_error(current: str, before: list[str]) -> tuple[str, str] | None:
    begun, last = before[_statement_start(before) :], before[-1] if before else ""
    if begun == [last]:
        if last in _UNSUPPORTED:
            return f"{_UNSUPPORTED[last]} are not part of stream queries", "write the query alone: from … select …"
        if last == "select":
            return "a query does not begin with `select`", "write from item in all Type() select expression"
        if last not in APAMA_KEYWORDS and last.lower() in APAMA_KEYWORDS:
            return f"`{last}` is not a keyword", f"keywords are in lower case: {last.lower()}"
        if current == "in" and last not in APAMA_KEYWORDS:
            return "a query does not begin with an item", f"write from {last} in"
    taken = last in APAMA_KEYWORDS and last not in _VALUES and before[-2:] != ["retain", "all"]
    if taken and before[-2:-1] and before[-2] in _NEED_A_VALUE:
        return f"nothing follows `{before[-2]}`", APAMA_KEYWORDS[before[-2]]
    return None


def _common_mistake(current: str, before: list[str], after: str) -> tuple[str | None, str | None]:
    last = before[-1] if before else ""
    clause = next((word for word in reversed(before) if word in APAMA_KEYWORDS), "")
    if current == "{" and clause in ("select", "rstream"):
        return "a query is followed by a listener block", "listeners are Python here: `cep.on(NAME, function)`"
    if current == "(" and last[:1].isalpha() and before[-2:-1] == ["in"]:
        return "an event template is a stream only with `all`", f"write all {last}(…)"
    begun = before[_statement_start(before) :]
    if current in _UNSUPPORTED and not begun:
        return f"{_UNSUPPORTED[current]} are not part of stream queries", "write the query alone: from … select …"
    if current in ("from", "join") and before.count("in") > 1 and clause != "select":
        return "a query has at most two input streams", "join two of them in a stream of their own, named by stream<…>"
    if current in ("within", "partition") and clause in ("retain", "within", "every", "unique"):
        return f"`{current}` comes after `{clause}`", _WINDOW
    if current in ("retain", "every") and clause == "unique":
        return f"`{current}` comes after `with unique`", _WINDOW
    if current == "every" and before[-2:] == ["retain", "all"]:
        return "`retain all` cannot be batched", "write retain n every m"
    if current == "every" and clause == "every":
        return "`every` twice", _WINDOW
    if current == "every":
        hint = "write within seconds every seconds, or retain n every m"
        return "`every` without `within` or `retain` before it", hint
    if current == "with" and before[-2:] == ["retain", "all"]:
        return "`retain all` takes no `with unique`", "write retain n with unique key"
    if current == "with" and clause in ("in", "all"):
        return "`with unique` without a window before it", "write within seconds or retain n first"
    earlier = current in ("where", "having", "group", "within", "retain", "partition")
    if earlier and clause in ("select", "where", "having"):
        return f"`{current}` comes after `{clause}`", f"the parts of a query come in this order: {_ORDER}"
    if current.startswith('"') or (current == "" and '"' in after):
        return "a string is not closed", 'end it with "'
    if current == "/" and after.startswith("*"):
        return "a comment is not closed", "end it with */"
    if current == "'":
        return "strings use double quotes", 'write "text"'
    if current == "=" and last == "=":
        return "`==` is not an operator", "equality is written ="
    return _foreign_construct(current, before, clause)


_SIGNS = {"&": ("&&", "and"), "|": ("||", "or"), "!": ("!", "not")}
_UNITS = tuple("ms msec s sec secs second seconds min minute minutes hour hours day days".split())
_CLAUSES_AFTER_JOIN = ("select", "where", "group", "having")
_VALUES = ("true", "false", "not", "rstream")
_NEED_A_VALUE = ("retain", "within", "every", "unique", "where", "by", "having", "on", "equals", "select")


def _foreign_construct(current: str, before: list[str], clause: str) -> tuple[str | None, str | None]:
    last = before[-1] if before else ""
    begun = before[_statement_start(before) :]
    if current in _SIGNS:
        sign, word = _SIGNS[current]
        return f"`{sign}` is not an operator", f"write {word}"
    if current in _UNITS and clause in ("within", "every"):
        return "durations have no unit, they are seconds", "such as within 1.5"
    if current in _UNITS and clause == "retain":
        return "`retain` takes a number of items", "write within 1.5 for items of the last seconds"
    if current == "*" and before[-2:] == ["count", "("]:
        return "`*` is not an expression", "count() counts the items"
    if current == "*" and clause in ("select", "rstream"):
        return "`*` is not an expression", "write the name of the item to select all its fields"
    if current == "," and clause in ("select", "rstream", "as"):
        return "a query selects one expression", "put several values into a new event: select Name(a, b)"
    if current not in ("(", ".") and before[-2:-1] == ["all"] and before[-3:-2] in (["in"], [":="]):
        return f"an event template without brackets: `{last}`", f"write all {last}()"
    if current == "in" and "all" in before and ")" not in before[before.index("all") :]:
        return "`in` inside a template", f"a range is written {last} = [low : high]"
    if current == "order":
        return "a query has no `order by`", "items are in the order of arrival"
    if current == "like":
        return "`like` is not an operator", "compare whole texts with = and !="
    if current == "is":
        return "`is` is not an operator", "values are never null; equality is written ="
    if last == "new":
        return "`new` is not an operator", f"write {current}(…) alone"
    if current == "=" and begun[:1] == ["stream"]:
        return "found `=`, expected `:=`", "write stream<type> name := query;"
    if begun == ["stream"]:
        return f"found `{current}`, expected `<`", "say of what: stream<float> name := query;"
    if not current and begun[:1] == ["stream"]:
        return "the text ends here, but no query reads the stream", "write ; and from x in name select x"
    if current in ("}", ",") and begun[:1] == ["event"]:
        return f"found `{current}`, expected `;`", "each field ends with ;"
    if begun[:1] == ["stream"] and current in ("from", "stream", "event"):
        return f"found `{current}`, expected `;`", "a stream ends with ;"
    if not current and last == ";":
        return "the text ends here, but there is no query", "a query follows what is declared: from … select …"
    start = _last_index(begun, clause) if clause in begun else 0
    if current == "," and "select" not in begun and "(" not in begun[start:]:
        return "found `,` between two streams", "write join item in stream on key equals key, or from item in stream"
    if not current and last in (*_NEED_A_VALUE, "rstream"):
        return f"nothing follows `{last}`", APAMA_KEYWORDS[last]
    if current == "unique":
        return "`unique` without `with`", APAMA_KEYWORDS["unique"]
    if current == "where" and "by" in begun and "select" not in begun:
        return "`where` comes after `group by`", f"the parts of a query come in this order: {_ORDER}"
    if "join" in begun and "on" not in begun and current in _CLAUSES_AFTER_JOIN:
        return f"found `{current}`, expected `on`", "write on left key equals right key"
    if clause == "on" and "equals" not in before and current in _CLAUSES_AFTER_JOIN:
        return "the keys of a join are compared with `equals`", "write on left key equals right key"
    if clause == "by" and before[_last_index(before, "by") - 1] == "partition" and current in _CLAUSES_AFTER_JOIN:
        return "`partition by` without a window", "write within or retain after it"
    if current in ("from", "stream", "event") and last == ";" and "select" in before:
        return "a second query", "a text has one query; run others by themselves, or name them: stream<type> name := …;"
    if current == ">" and last == "<":
        return "`<>` is not an operator", "write !="
    if last == "distinct" and before[-2:-1] in (["select"], ["rstream"]):
        return "a query has no `distinct`", "write with unique key after the window"
    if last == "istream" and before[-2:-1] == ["select"]:
        hint = "select delivers items that enter the window, select rstream items that leave it"
        return "`istream` is not written", hint
    if current == "limit":
        return "a query has no `limit`", "write retain n for the last n items"
    if current in ("in", "between") and clause in ("where", "having", "and", "or", "not", "xor", "select"):
        return f"`{current}` is not an operator", "write two comparisons: x >= low and x <= high"
    if current in ("retain", "within") and clause == current:
        return f"`{current}` twice", _WINDOW
    return None, None


def _last_index(words: list[str], word: str) -> int:
    return len(words) - 1 - words[::-1].index(word)


def _statement_start(words: list[str]) -> int:
    ends = [number for number, word in enumerate(words) if word in (";", "}")]
    return ends[-1] + 1 if ends else 0


def _expected_text(expected: set[str]) -> str:
    words = sorted(f"`{name.lower()}`" for name in expected if name.lower() in APAMA_KEYWORDS)
    others = sorted(_NAMED[name] for name in expected if name in _NAMED)
    texts = [*words, *others]
    return " or ".join([", ".join(texts[:-1]), texts[-1]]) if len(texts) > 1 else "".join(texts)


def _hint(current: str, before: list[str], expected: set[str]) -> str | None:
    last = before[-1] if before else ""
    keywords = [name.lower() for name in expected if name.lower() in APAMA_KEYWORDS]
    near = nearest_name(current, keywords) if current else None
    if near is not None and near != current:
        return f"did you mean `{near}`?"
    if current in APAMA_KEYWORDS and "NAME" in expected:
        return f"`{current}` is a keyword, it cannot be a name"
    if last in APAMA_KEYWORDS:
        return APAMA_KEYWORDS[last]
    if last == "as":
        return "write a name after as"
    if before.count("(") > before.count(")") and (not current or current in APAMA_KEYWORDS):
        return "close the bracket ( with )"
    if current == ")":
        return "no ( is open here" if before.count("(") <= before.count(")") else "write a value before it"
    if not current and last and last != ")" and not last[-1].isalnum():
        return f"write a value after {last}"
    if current == ",":
        return "write a value before the comma"
    if current == ";":
        return "a query ends with one ;"
    if not current and "FROM" in expected and "SELECT" not in expected:
        return "write from item in all Type() select expression"
    if "IN" in expected:
        return APAMA_KEYWORDS["from"]
    if not (current[:1].isalnum() or current[:1] in '_$"-+*/%<>=!().:;,[]{}'):
        return "a comment begins with //" if current == "#" else f"leave `{current}` out"
    return "a query ends with select and an expression" if not current and "SELECT" in expected else None
