"""Types of EPL values, Java-like, and how numbers widen (Esper reference, chapter Event Representations).

Values are plain Python: ``int`` for byte, short, int, long and biginteger; ``float`` for float and double;
``decimal.Decimal`` for bigdecimal; ``str`` for string and char; ``bool``; ``list`` for arrays; ``dict`` for
nested events and maps; ``datetime``, ``date`` and ``time`` for dates and times; ``None`` for null in every type.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, repr=False)
class Type:
    """One EPL type. `of` is the element type of an array; `event` the name of a nested event type.

    `fields` are the columns of a ``new { … }`` value, whose name is ``struct``. `primitive` says if the elements of an
    array are values of Java's primitive types, which are never null; it is None if the text leaves that open. Types
    that differ in it only are equal. `dated` says likewise if Python had dates where EPL has a long.
    """

    name: str
    of: Type | None = None
    event: str | None = None
    fields: tuple[tuple[str, Type], ...] | None = None
    primitive: bool | None = field(default=None, compare=False)
    dated: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        if self.of is not None:
            return f"{self.of}[]"
        return self.event if self.event is not None else self.name

    def __repr__(self) -> str:
        return f"<{self}>"


BOOLEAN = Type("boolean")
BYTE = Type("byte")
SHORT = Type("short")
INT = Type("int")
LONG = Type("long")
FLOAT = Type("float")
DOUBLE = Type("double")
BIGINTEGER = Type("biginteger")
BIGDECIMAL = Type("bigdecimal")
STRING = Type("string")
CHAR = Type("char")
OBJECT = Type("object")
MAP = Type("map")
NULL = Type("null")  # the type of the literal null: fits everywhere
LONG_DATE = Type("long", dated=True)  # a moment as a long; equals LONG
TIMESTAMP = Type("timestamp")  # a moment (datetime.datetime); plain EPL timestamps are LONG
CALENDAR = Type("calendar")  # a moment as calendar and clock of its time zone show it
ZONEDDATETIME = Type("zoneddatetime")  # the same, as java.time has it
LOCALDATETIME = Type("localdatetime")  # a datetime without time zone
LOCALDATE = Type("localdate")  # a datetime.date
LOCALTIME = Type("localtime")  # a datetime.time

CHRONOLOGY = Type("chronology")  # of constants that tell date-time methods how to read a value

# What date-time methods work on, besides LONG
DATETIMES = (TIMESTAMP, CALENDAR, ZONEDDATETIME, LOCALDATETIME)
DATES = (*DATETIMES, LOCALDATE, LOCALTIME)
MOMENTS = (LONG, TIMESTAMP, CALENDAR, ZONEDDATETIME)  # what a date without a zone becomes in a time zone

# Narrow to wide. Binary numeric promotion takes the wider one, but see `promote`.
NUMERIC = (BYTE, SHORT, INT, LONG, BIGINTEGER, FLOAT, DOUBLE, BIGDECIMAL)
INTEGRAL = (BYTE, SHORT, INT, LONG, BIGINTEGER)
BITS = {"byte": 8, "short": 16, "int": 32, "long": 64}
SIZED_NUMBERS = (*BITS, "float", "double")  # names of the types of numbers that have a size
VALUE_TYPES: dict[str, type] = {of.name: int for of in INTEGRAL} | {"float": float, "double": float, "string": str}
UNHASHABLE = frozenset(("array", "object", "map", "event", "struct"))  # may change, or hold any value
EXACT_KEY_TYPES = frozenset(("boolean", "string", "char", *BITS))  # values equal themselves and have one form

BY_NAME: dict[str, Type] = {
    **{t.name: t for t in (*NUMERIC, BOOLEAN, STRING, CHAR, OBJECT, MAP, *DATES)},
    "integer": INT,
    "character": CHAR,
    "bool": BOOLEAN,
    "varchar": STRING,
    "java.lang.string": STRING,
    "bigint": BIGINTEGER,
    "java.math.bigdecimal": BIGDECIMAL,
    "java.math.biginteger": BIGINTEGER,
    "java.util.map": MAP,
    "java.lang.object": OBJECT,
    "java.lang.number": OBJECT,
    "date": TIMESTAMP,
}


def array_of(element: Type, primitive: bool | None = None) -> Type:
    """The array type with elements of type `element`."""
    return Type("array", of=element, primitive=primitive)


def event_of(name: str) -> Type:
    """The type of a property that holds an event of type `name`."""
    return Type("event", event=name)


def struct_of(fields: tuple[tuple[str, Type], ...]) -> Type:
    """The type of ``new { a = 1, b = 'x' }``: a dict with known columns."""
    return Type("struct", fields=fields)


def is_numeric(t: Type) -> bool:
    """Return whether arithmetic is defined on `t`."""
    return t in NUMERIC


def is_integral(t: Type) -> bool:
    """Return whether all values of `t` are whole numbers."""
    return t in INTEGRAL


def is_hashable(t: Type) -> bool:
    """Return whether values of `t` can be keys as they are: they never change and have a known type."""
    return t.name not in UNHASHABLE


def is_ordered(t: Type) -> bool:
    """Return whether values of `t` may have an order, as far as the type tells."""
    return t.of is None and t.name not in ("event", "map", "struct")


def promote(left: Type, right: Type) -> Type:
    """Return the common type of two numbers, as recorded from the reference.

    Equal types stay. Byte and short mix to int, long or int with float to double, biginteger with a floating type to
    bigdecimal.
    """
    if left == right:
        return left
    pair = {left, right}
    if BIGDECIMAL in pair:
        return BIGDECIMAL
    if BIGINTEGER in pair:
        return BIGDECIMAL if pair & {FLOAT, DOUBLE} else BIGINTEGER
    if pair & {FLOAT, DOUBLE}:
        return DOUBLE
    return LONG if LONG in pair else INT


def arithmetic_type(left: Type, right: Type) -> Type:
    """Return the type of ``left + right``: `promote`, at least int."""
    promoted = promote(left, right)
    return INT if promoted in (BYTE, SHORT) else promoted
