"""Generated source has no text of the user in it: names, aliases and literals come in through its constants."""

from __future__ import annotations

from cepbook.engine.runtime import Runtime

# Everything that a user can name or write as text begins with `zq`; the number occurs nowhere else.
MODULE = """
create schema ZqTick(`zq symbol` string, zqPrice double, zqInner java.util.Map);
create context ZqContext partition by `zq symbol` from ZqTick(zqPrice > 271828);
@name('zq plain') select `zq symbol` as `zq "); import os #`, cast(zqPrice, string) || 'zq' as zqText
    from ZqTick#length(271828) where `zq symbol` like 'zq%' and `zq symbol` != 'zq"); import os #\\n';
@name('zq group') context ZqContext select context.key1 as zqKey, sum(zqPrice) as zqSum, zqTwice(zqPrice) as zqTwo
    from ZqTick(`zq symbol` in ('zq1', 'zq2'))#time(271828 sec) as zqAlias
    group by `zq symbol` having sum(zqPrice) > 271828 order by `zq symbol`;
@name('zq batch') insert into ZqOut select `zq symbol`, max(zqPrice) as zqMax
    from ZqTick#groupwin(`zq symbol`)#length_batch(271828) group by `zq symbol`
"""


def test_no_text_of_the_user_becomes_code() -> None:
    runtime = Runtime(functions={"zqTwice": lambda x: None if x is None else 2 * x})
    statements = runtime.deploy(MODULE).statements
    assert len(statements) == 3
    for statement in statements:
        assert "zq" not in statement.program.text.lower()
        assert "271828" not in statement.program.text
        held = repr(list(statement.program.constants.values()))
        assert "zq" in held and "271828" in held
