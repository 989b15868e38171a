"""What is wrong with a text that is no Apama query, said in Apama's words."""

from __future__ import annotations

import re

from cepbook.errors import Diagnostic, Span, nearest

KEYWORDS = {
    "all": "all Type(field = value, …): the events of a type that match; retain all: everything since the beginning",
    "and": "both conditions hold",
    "by": "partition by, group by: the keys",
    "equals": "join item in stream on left key equals right key",
    "event": "event Name { type field; … } declares an event type",
    "every": "within d every p: the window changes every p seconds; retain n every m: m items enter together",
    "false": "the boolean",
    "from": "from item in stream window select expression",
    "group": "group by keys: an aggregate for each group, of which those that changed are given",
    "having": "having condition: which results are given",
    "in": "from item in stream",
    "join": "join item in stream window on key equals key",
    "not": "the condition does not hold",
    "on": "join … on left key equals right key",
    "or": "one of the conditions holds",
    "partition": "partition by keys: a window of its own for each key",
    "retain": "retain n: the last n items; retain all: everything since the beginning",
    "rstream": "select rstream: the items that leave the window",
    "select": "select expression: what is given for each item that enters, or for the window as a whole",
    "stream": "stream<type> name := query; names a stream",
    "true": "the boolean",
    "unique": "with unique key: of the items in the window only the newest of each key is seen",
    "where": "where condition: which items in the window count",
    "with": "with unique key",
    "within": "within d: the items of the last d seconds",
    "xor": "one of the conditions holds, not both",
}

_ORDER = "from … in …, window, second stream, where, group by, having, select"
_WINDOW = "the parts of a window stand in this order: partition by, within, every, retain, with unique"
_OUTSIDE = {
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


def explain(text: str, span: Span, found: str, expected: set[str]) -> Diagnostic:
    """`found` stands at `span` of `text`, where the grammar wants one of `expected`."""
    before = re.findall(r"\w+|\S", re.sub(r"//[^\n]*", "", text[: span.start]))
    message, hint = _known(found, before, text[span.end :])
    if message is None:
        message = f"found `{found}`" if found else "the text ends here"
        wanted = _wanted(expected)
        message += f", expected {wanted}" if wanted else ""
        hint = _hint(found, expected)
    return Diagnostic("syntax-error", message, span, hint)


def _known(found: str, before: list[str], after: str) -> tuple[str | None, str | None]:
    """What is often meant."""
    last = before[-1] if before else ""
    clause = next((word for word in reversed(before) if word in KEYWORDS), "")
    if found == "{" and clause in ("select", "rstream"):
        return "a query is followed by a listener block", "listeners are Python here: `cep.on(NAME, function)`"
    if found == "(" and last[:1].isalpha() and before[-2:-1] == ["in"]:
        return "an event template is a stream only with `all`", f"write all {last}(…)"
    begun = before[_begin(before) :]
    first = begun[0] if begun else found
    if first in _OUTSIDE and len(begun) < 2:
        return f"{_OUTSIDE[first]} are no part of stream queries", "write the query alone: from … select …"
    if found in ("from", "join") and before.count("in") > 1 and clause != "select":
        return "a query has at most two input streams", "join two of them in a stream of their own, named by stream<…>"
    if found in ("within", "partition") and clause in ("retain", "within", "every", "unique"):
        return f"`{found}` stands behind `{clause}`", _WINDOW
    if found in ("retain", "every") and clause == "unique":
        return f"`{found}` stands behind `with unique`", _WINDOW
    if found == "every" and before[-2:] == ["retain", "all"]:
        return "`retain all` cannot be batched", "write retain n every m"
    if found == "every":
        return (
            "`every` without `within` or `retain` before it",
            "write within seconds every seconds, or retain n every m",
        )
    if found == "with" and clause == "in":
        return "`with unique` without a window before it", "write within seconds or retain n first"
    if found == "with" and before[-2:] == ["retain", "all"]:
        return "`retain all` takes no `with unique`", None
    if found in ("where", "having", "group", "within", "retain", "partition") and clause in (
        "select",
        "where",
        "having",
    ):
        return f"`{found}` stands behind `{clause}`", f"the parts of a query stand in this order: {_ORDER}"
    if found.startswith('"') or (found == "" and '"' in after):
        return "a string is not closed", None
    if found == "'":
        return "strings stand in double quotes", None
    if found == "=" and last == "=":
        return "`==` is no operator", "equality is written ="
    return None, None


def _begin(words: list[str]) -> int:
    """Where the last statement begins."""
    ends = [number for number, word in enumerate(words) if word in (";", "}")]
    return ends[-1] + 1 if ends else 0


def _wanted(expected: set[str]) -> str:
    words = sorted(f"`{name.lower()}`" for name in expected if name.lower() in KEYWORDS)
    others = sorted(_NAMED[name] for name in expected if name in _NAMED)
    found = [*words, *others]
    return " or ".join([", ".join(found[:-1]), found[-1]]) if len(found) > 1 else "".join(found)


def _hint(found: str, expected: set[str]) -> str | None:
    near = nearest(found, [name.lower() for name in expected if name.lower() in KEYWORDS], 0.7) if found else None
    if near is not None and near != found:
        return f"did you mean `{near}`?"
    return f"`{found}` is a keyword, it cannot be a name" if found in KEYWORDS and "NAME" in expected else None
