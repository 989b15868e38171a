"""Values that grow with each event: an error of the statement before they fill the memory."""

from __future__ import annotations

import resource

import pytest

from cepbook import Workbench
from cepbook.errors import EventError
from cepbook.lang.java.sizes import MAX_DIGITS, MAX_LENGTH, united

TEXT, NUMBER, ARRAY = f"more than {MAX_LENGTH:,}", f"more than {MAX_DIGITS:,} digits", "elements, more than"
GROWING = {
    "||": ("create variable string v = 'ab'; @name('s') on E set v = v || v", TEXT),
    "|| of several": ("create variable string v = 'ab'; @name('s') on E set v = v || v || 'c' || v", TEXT),
    "concat": ("create variable string v = 'ab'; @name('s') on E set v = v.concat(v)", TEXT),
    "replace": ("create variable string v = 'ab'; @name('s') on E set v = v.replace('a', 'aa' || v)", TEXT),
    "replace nothing": ("create variable string v = 'ab'; @name('s') on E set v = v.replace('', v)", TEXT),
    "window": (
        "create window W#lastevent as (v string); insert into W select 'ab' as v from E(n = 0); "
        "@name('s') on E as e update W set v = v || v",
        TEXT,
    ),
    "table": (
        "create table T(k int primary key, v string); "
        "@name('s') on E as e merge T as t where t.k = 1 when not matched then insert select 1 as k, 'ab' as v "
        "when matched then update set v = t.v || t.v",
        TEXT,
    ),
    "*": ("create variable biginteger v = 7; @name('s') on E set v = v * v", NUMBER),
    "+": ("create variable biginteger v = 7; @name('s') on E set v = v * v + v", NUMBER),
    "long chain": ("create variable biginteger v = 7; @name('s') on E set v = " + " * ".join(["v"] * 20), NUMBER),
}


@pytest.mark.parametrize("name", GROWING)
def test_growing_values_end_in_an_error_of_their_statement(name: str) -> None:
    text, problem = GROWING[name]
    cep = Workbench()
    cep.run("create schema E(n int)")
    cep.run(text)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cep.replay([{"n": n, "ts": n} for n in range(60)], type="E", time="ts", errors="keep").run()
    assert cep.errors and all(problem in str(error) for error in list(cep.errors))
    assert {error.statement for error in cep.errors} == {"s"}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500 << 10


def test_an_array_of_too_many_elements_is_an_error() -> None:
    assert united([1], [2]) == [1, 2] and united([1], None) == [1]
    with pytest.raises(ValueError, match="33,554,432 elements, more than 16,777,216"):
        united(range(MAX_LENGTH), range(MAX_LENGTH))


def test_a_number_of_more_digits_is_no_biginteger() -> None:
    cep = Workbench()
    cep.run("create schema E(n biginteger)")
    cep.send("E", n=10 ** (MAX_DIGITS - 1))
    with pytest.raises(EventError, match="`n` of event type `E` is biginteger, and has more than 4,300 digits"):
        cep.send("E", n=10**MAX_DIGITS)
