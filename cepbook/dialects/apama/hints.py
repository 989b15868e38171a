"""Diagnostics of text that is no Apama query, with hints in Apama's words."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cepbook.errors import Diagnostic, Span, alternatives, nearest_name
from cepbook.lang.syntax.reader.hint_rows import Hint, Words, first_hint, is_among
from cepbook.lang.syntax.reader.lexer import SourceToken
from cepbook.lang.syntax.reader.parse_failure import ParseFailure

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


@dataclass(frozen=True, slots=True)
class QueryFailure(ParseFailure):
    """The place at which the parser stopped. Words are case-sensitive. `rest` is the text behind the place.

    The statement before the place begins behind the last ``;`` or ``}``.
    """

    rest: str

    def text(self, offset: int = 0) -> str:
        """Return the word at `offset` from the failure, or an empty text outside of the query."""
        i = self.at + offset
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def all_before(self) -> list[str]:
        """Return all words before the failure, also those of earlier statements."""
        return [token.text for token in self.tokens[: self.at]]

    def words_before(self) -> list[str]:
        """Return the words of the statement before the failure."""
        words = self.all_before()
        return words[max((i + 1 for i, word in enumerate(words) if word in (";", "}")), default=0) :]

    @property
    def clause(self) -> str:
        """The last keyword before the failure."""
        return next((word for word in reversed(self.all_before()) if word in APAMA_KEYWORDS), "")

    def since_clause(self) -> list[str]:
        """Return the words of the statement since its last keyword."""
        words = self.words_before()
        return words[_last_index(words, self.clause) :] if self.clause in words else words


@dataclass(frozen=True, slots=True)
class Mistake(Hint[QueryFailure]):
    """A hint with its own message, in which ``{here}``, ``{before}`` and ``{clause}`` stand for words of the place.

    `clause` is the last keyword before the place.
    """

    fact: str = ""
    clause: Words | None = None

    def at(self, stop: QueryFailure) -> str | None:
        """Return the hint for a place, or None if the row is for others."""
        return Hint.at(self, stop) if self.clause is None or is_among(stop.clause, self.clause) else None

    def message(self, stop: QueryFailure) -> str:
        """Return the message for a place."""
        return self.fact.format(here=stop.text(), before=stop.text(-1), clause=stop.clause)


def diagnose(text: str, span: Span, current: str, expected: set[str]) -> Diagnostic:
    """Return the diagnostic for the word `current` at `span`, where the grammar accepts one of `expected`."""
    blank = _COMMENT.sub(lambda m: m[0] if m[0][0] == '"' else " " * len(m[0]), text)
    words = list(_WORD.finditer(blank, 0, span.start))
    tokens = [SourceToken("word", word.group(), *word.span()) for word in words]
    here = [SourceToken("word", current, span.start, span.end)] if current else []
    keywords = tuple(sorted(name.lower() for name in expected if name.lower() in APAMA_KEYWORDS))
    stop = QueryFailure((*tokens, *here), len(tokens), frozenset(expected), keywords, text[span.end :])
    earlier = _previous_word_error(stop)
    if earlier is not None:
        return Diagnostic("syntax-error", earlier[0], Span(*words[-1].span()), earlier[1])
    for mistake in MISTAKES:
        hint = mistake.at(stop)
        if hint is not None:
            return Diagnostic("syntax-error", mistake.message(stop), span, hint)
    message = f"found `{current}`" if current else "the text ends here"
    expected_words = _expected_text(expected)
    message += f", expected {expected_words}" if expected_words else ""
    return Diagnostic("syntax-error", message, span, first_hint(HINTS, stop))


def _previous_word_error(stop: QueryFailure) -> tuple[str, str] | None:
    last = stop.text(-1)
    if stop.words_before() == [last]:
        if last in _UNSUPPORTED:
            return f"{_UNSUPPORTED[last]} are not part of stream queries", _ALONE
        if last == "select":
            return "a query does not begin with `select`", "write from item in all Type() select expression"
        if last not in APAMA_KEYWORDS and last.lower() in APAMA_KEYWORDS:
            return f"`{last}` is not a keyword", f"keywords are in lower case: {last.lower()}"
        if stop.text() == "in" and last not in APAMA_KEYWORDS:
            return "a query does not begin with an item", f"write from {last} in"
    before = stop.text(-2)
    taken = last in APAMA_KEYWORDS and last not in _VALUES and (before, last) != ("retain", "all")
    if taken and before in _NEED_A_VALUE:
        return f"nothing follows `{before}`", APAMA_KEYWORDS[before]
    return None


def _template_is_open(stop: QueryFailure) -> bool:
    words = stop.all_before()
    return "all" in words and ")" not in words[words.index("all") :]


def _is_partition(stop: QueryFailure) -> bool:
    words = stop.all_before()
    return words[_last_index(words, "by") - 1] == "partition"


def _begins_anew(stop: QueryFailure) -> bool:
    return not stop.words_before()


def _has_open_bracket(stop: QueryFailure) -> bool:
    return stop.all_before().count("(") > stop.all_before().count(")")


_ALONE = "write the query alone: from … select …"
_IN_ORDER = f"the parts of a query come in this order: {_ORDER}"
_UNITS = tuple("ms msec s sec secs second seconds min minute minutes hour hours day days".split())
_CLAUSES_AFTER_JOIN = ("select", "where", "group", "having")
_CONDITIONS = ("where", "having", "and", "or", "not", "xor", "select")
_VALUES = ("true", "false", "not", "rstream")
_NEED_A_VALUE = ("retain", "within", "every", "unique", "where", "by", "having", "on", "equals", "select")
_SELECTS = ("select", "rstream")
MISTAKES = (
    Mistake(
        "listeners are Python here: `cep.on(NAME, function)`",
        fact="a query is followed by a listener block",
        here="{",
        clause=_SELECTS,
    ),
    Mistake(
        lambda stop: f"write all {stop.text(-1)}(…)",
        fact="an event template is a stream only with `all`",
        earlier="in",
        here="(",
        when=lambda stop: stop.text(-1)[:1].isalpha(),
    ),
    *(
        Mistake(_ALONE, fact=f"{what} are not part of stream queries", here=word, when=_begins_anew)
        for word, what in _UNSUPPORTED.items()
    ),
    Mistake(
        "join two of them in a stream of their own, named by stream<…>",
        fact="a query has at most two input streams",
        here=("from", "join"),
        when=lambda stop: stop.all_before().count("in") > 1 and stop.clause != "select",
    ),
    # the parts of a window and their order
    Mistake(
        _WINDOW,
        fact="`{here}` comes after `{clause}`",
        here=("within", "partition"),
        clause=("retain", "within", "every", "unique"),
    ),
    Mistake(_WINDOW, fact="`{here}` comes after `with unique`", here=("retain", "every"), clause="unique"),
    Mistake(
        "write retain n every m", fact="`retain all` cannot be batched", earlier="retain", before="all", here="every"
    ),
    Mistake(_WINDOW, fact="`every` twice", here="every", clause="every"),
    Mistake(
        "write within seconds every seconds, or retain n every m",
        fact="`every` without `within` or `retain` before it",
        here="every",
    ),
    Mistake(
        "write retain n with unique key",
        fact="`retain all` takes no `with unique`",
        earlier="retain",
        before="all",
        here="with",
    ),
    Mistake(
        "write within seconds or retain n first",
        fact="`with unique` without a window before it",
        here="with",
        clause=("in", "all"),
    ),
    Mistake(
        _IN_ORDER,
        fact="`{here}` comes after `{clause}`",
        here=("where", "having", "group", "within", "retain", "partition"),
        clause=("select", "where", "having"),
    ),
    # signs and constructs of other languages
    Mistake(
        'end it with "',
        fact="a string is not closed",
        when=lambda stop: stop.text().startswith('"') or (stop.text() == "" and '"' in stop.rest),
    ),
    Mistake("end it with */", fact="a comment is not closed", here="/", when=lambda stop: stop.rest.startswith("*")),
    Mistake('write "text"', fact="strings use double quotes", here="'"),
    Mistake("equality is written =", fact="`==` is not an operator", before="=", here="="),
    Mistake("write and", fact="`&&` is not an operator", here="&"),
    Mistake("write or", fact="`||` is not an operator", here="|"),
    Mistake("write not", fact="`!` is not an operator", here="!"),
    Mistake(
        "such as within 1.5", fact="durations have no unit, they are seconds", here=_UNITS, clause=("within", "every")
    ),
    Mistake(
        "write within 1.5 for items of the last seconds",
        fact="`retain` takes a number of items",
        here=_UNITS,
        clause="retain",
    ),
    Mistake("count() counts the items", fact="`*` is not an expression", earlier="count", before="(", here="*"),
    Mistake(
        "write the name of the item to select all its fields",
        fact="`*` is not an expression",
        here="*",
        clause=_SELECTS,
    ),
    Mistake(
        "put several values into a new event: select Name(a, b)",
        fact="a query selects one expression",
        here=",",
        clause=(*_SELECTS, "as"),
    ),
    Mistake(
        lambda stop: f"write all {stop.text(-1)}()",
        fact="an event template without brackets: `{before}`",
        earlier="all",
        when=lambda stop: stop.text() not in ("(", ".") and stop.text(-3) == "in",
    ),
    Mistake(
        lambda stop: f"a range is written {stop.text(-1)} = [low : high]",
        fact="`in` inside a template",
        here="in",
        when=_template_is_open,
    ),
    Mistake("items are in the order of arrival", fact="a query has no `order by`", here="order"),
    Mistake("compare whole texts with = and !=", fact="`like` is not an operator", here="like"),
    Mistake("values are never null; equality is written =", fact="`is` is not an operator", here="is"),
    Mistake(lambda stop: f"write {stop.text()}(…) alone", fact="`new` is not an operator", before="new"),
    # declarations
    Mistake("write stream<type> name := query;", fact="found `=`, expected `:=`", begins="stream", here="="),
    Mistake(
        "say of what: stream<float> name := query;",
        fact="found `{here}`, expected `<`",
        when=lambda stop: stop.words_before() == ["stream"],
    ),
    Mistake(
        "write ; and from x in name select x",
        fact="the text ends here, but no query reads the stream",
        begins="stream",
        here="",
    ),
    Mistake("each field ends with ;", fact="found `{here}`, expected `;`", begins="event", here=("}", ",")),
    Mistake(
        "a stream ends with ;", fact="found `{here}`, expected `;`", begins="stream", here=("from", "stream", "event")
    ),
    Mistake(
        "a query follows what is declared: from … select …",
        fact="the text ends here, but there is no query",
        before=";",
        here="",
    ),
    # clauses
    Mistake(
        "write join item in stream on key equals key, or from item in stream",
        fact="found `,` between two streams",
        here=",",
        when=lambda stop: "select" not in stop.words_before() and "(" not in stop.since_clause(),
    ),
    *(
        Mistake(APAMA_KEYWORDS.get(word, ""), fact=f"nothing follows `{word}`", before=word, here="")
        for word in (*_NEED_A_VALUE, "rstream")
    ),
    Mistake(APAMA_KEYWORDS["unique"], fact="`unique` without `with`", here="unique"),
    Mistake(
        _IN_ORDER,
        fact="`where` comes after `group by`",
        here="where",
        among="by",
        when=lambda stop: "select" not in stop.words_before(),
    ),
    Mistake(
        "write on left key equals right key",
        fact="found `{here}`, expected `on`",
        here=_CLAUSES_AFTER_JOIN,
        among="join",
        when=lambda stop: "on" not in stop.words_before(),
    ),
    Mistake(
        "write on left key equals right key",
        fact="the keys of a join are compared with `equals`",
        here=_CLAUSES_AFTER_JOIN,
        clause="on",
        when=lambda stop: "equals" not in stop.all_before(),
    ),
    Mistake(
        "write within or retain after it",
        fact="`partition by` without a window",
        here=_CLAUSES_AFTER_JOIN,
        clause="by",
        when=_is_partition,
    ),
    Mistake(
        "a text has one query; run others by themselves, or name them: stream<type> name := …;",
        fact="a second query",
        before=";",
        here=("from", "stream", "event"),
        when=lambda stop: "select" in stop.all_before(),
    ),
    Mistake("write !=", fact="`<>` is not an operator", before="<", here=">"),
    Mistake(
        "write with unique key after the window", fact="a query has no `distinct`", earlier=_SELECTS, before="distinct"
    ),
    Mistake(
        "select delivers items that enter the window, select rstream items that leave it",
        fact="`istream` is not written",
        earlier="select",
        before="istream",
    ),
    Mistake("write retain n for the last n items", fact="a query has no `limit`", here="limit"),
    Mistake(
        "write two comparisons: x >= low and x <= high",
        fact="`{here}` is not an operator",
        here=("in", "between"),
        clause=_CONDITIONS,
    ),
    Mistake(_WINDOW, fact="`{here}` twice", here="retain", clause="retain"),
    Mistake(_WINDOW, fact="`{here}` twice", here="within", clause="within"),
)


def _nearest_keyword(stop: QueryFailure) -> str | None:
    near = nearest_name(stop.text(), stop.words) if stop.text() else None
    return None if near is None or near == stop.text() else f"did you mean `{near}`?"


def _missing_value(stop: QueryFailure) -> str | None:
    last = stop.text(-1)
    return f"write a value after {last}" if last and last != ")" and not last[-1].isalnum() else None


def _foreign_sign(stop: QueryFailure) -> str | None:
    here = stop.text()
    if here[:1].isalnum() or here[:1] in '_$"-+*/%<>=!().:;,[]{}':
        return None
    return "a comment begins with //" if here == "#" else f"leave `{here}` out"


HINTS: tuple[Hint[QueryFailure], ...] = (
    Hint(_nearest_keyword),
    Hint(lambda stop: f"`{stop.text()}` is a keyword, it cannot be a name", here=APAMA_KEYWORDS, accepts="NAME"),
    *(Hint(text, before=word) for word, text in APAMA_KEYWORDS.items()),
    Hint("write a name after as", before="as"),
    Hint("close the bracket ( with )", here=("", *APAMA_KEYWORDS), when=_has_open_bracket),
    Hint("write a value before it", here=")", when=_has_open_bracket),
    Hint("no ( is open here", here=")"),
    Hint(_missing_value, here=""),
    Hint("write a value before the comma", here=","),
    Hint("a query ends with one ;", here=";"),
    Hint("write from item in all Type() select expression", here="", accepts="FROM", refuses="SELECT"),
    Hint(APAMA_KEYWORDS["from"], accepts="IN"),
    Hint(_foreign_sign),
    Hint("a query ends with select and an expression", here="", accepts="SELECT"),
)


def _last_index(words: list[str], word: str) -> int:
    return len(words) - 1 - words[::-1].index(word)


def _expected_text(expected: set[str]) -> str:
    words = sorted(f"`{name.lower()}`" for name in expected if name.lower() in APAMA_KEYWORDS)
    others = sorted(_NAMED[name] for name in expected if name in _NAMED)
    return alternatives([*words, *others])
