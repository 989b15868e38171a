from __future__ import annotations

from pathlib import Path

import pytest

from cepbook.testing.scenario import (
    ConfigFence,
    InvalidFence,
    ModuleFence,
    QueryFence,
    ScenarioCase,
    TraceFence,
    case_sections,
    is_scenario,
    parse_case,
    read,
)
from cepbook.testing.trace import (
    Advance,
    Deployed,
    Failure,
    GetVariable,
    Iterate,
    Partitions,
    ReadRows,
    ReplaceTable,
    RunQuery,
    ScenarioError,
    Send,
    SetVariable,
    StatementDelivery,
    Together,
    Undeploy,
    format_reactions,
    parse_steps,
)

FILE = """# windows: length_batch

About the window.

## releases full batches

The previous batch leaves: in the same delivery.

tags: window, length_batch; oracle: esper 9.0.0; unordered
refuses: columns — content; dependent

```config
start = 1000

variable V = {"type": "int", "value": 5}
```

```epl
create schema Tick(price double)
```

```epl second
@name('out') select * from Tick
```

```python
not_part_of_the_case()
```

```trace
Tick price=1
    out + price=1.0
@2000
```

```invalid
select nonsense
```

```error
unknown-property: there is no nonsense
```

```invalid-query
select * from Nope
```

## another

tags: apama; evidence: docs

```apama out
from e in all Tick() select e.price
```

```invalid apama
from nonsense
```
"""


def only_case(text: str) -> ScenarioCase:
    (section,) = case_sections(text)
    return parse_case(section, Path("file.md"))


def test_a_file_is_read_into_its_parts(tmp_path: Path) -> None:
    path = tmp_path / "length_batch.md"
    path.write_text(FILE, encoding="utf-8")
    first, second = read(path).cases
    assert (first.name, first.line, first.last_line) == ("releases full batches", 5, 47)
    assert first.prose == "The previous batch leaves: in the same delivery."
    assert first.tags == ("window", "length_batch", "unordered")
    assert (first.oracle, first.evidence) == ("esper 9.0.0", None)
    declared = first.refusal_of("columns")
    assert declared is not None
    assert (declared.reason, declared.line) == ("content; dependent", 10)
    assert first.refusal_of("rows") is None
    config, main, other, trace, invalid, query = first.fences
    assert isinstance(config, ConfigFence)
    assert [(s.key, s.subject, s.value, s.line) for s in config.settings] == [
        ("start", None, 1000, 13),
        ("variable", "V", {"type": "int", "value": 5}, 15),
    ]
    assert main == ModuleFence("create schema Tick(price double)", "main", 18)
    assert other == ModuleFence("@name('out') select * from Tick", "second", 22)
    assert isinstance(trace, TraceFence)
    assert [(step.line, step.last_line) for step in trace.steps] == [(31, 32), (33, 33)]
    assert isinstance(invalid, InvalidFence)
    assert invalid.error is not None
    assert (invalid.text, invalid.query) == ("select nonsense", False)
    assert invalid.error.text == "unknown-property: there is no nonsense"
    assert isinstance(query, InvalidFence)
    assert (query.query, query.error) == (True, None)
    assert second.evidence == "docs"
    assert second.fences[0] == QueryFence("apama", "out", "from e in all Tick() select e.price", 52)
    assert isinstance(second.fences[1], InvalidFence)
    assert second.fences[1].dialect == "apama"


TRACE = """
Tick a=1 b="x y"
    out + a=1
        + a=2
        - a=0
    other (empty)
    ! out
`the type` n=1
@1500
@1600 stepping
iterate out
    = a=1
    = `count(*)`=2
query select * from W where a = 'x'
    = (none)
set V = {"a": 1}
get V
    = value={"a": 1}
undeploy id
    ! runtime
partitions Ctx
together A x=1 ;; B y=";;"
table T = [["a", 1], ["b", 2]]
"""


def test_every_kind_of_trace_line() -> None:
    steps = parse_steps(("deployed", *TRACE.strip().splitlines()), 1, Path("file.md"))
    assert [step.stimulus for step in steps] == [
        Deployed(),
        Send("Tick", {"a": 1, "b": "x y"}),
        Send("the type", {"n": 1}),
        Advance(1500, False),
        Advance(1600, True),
        Iterate("out"),
        RunQuery("select * from W where a = 'x'"),
        SetVariable("V", {"a": 1}),
        GetVariable("V"),
        Undeploy("id"),
        Partitions("Ctx"),
        Together((Send("A", {"x": 1}), Send("B", {"y": ";;"}))),
        ReplaceTable("T", [["a", 1], ["b", 2]]),
    ]
    assert steps[1].reactions == (
        StatementDelivery("out", ({"a": 1}, {"a": 2}), ({"a": 0},)),
        StatementDelivery("other", (), ()),
        Failure("out"),
    )
    assert steps[5].reactions == (ReadRows(({"a": 1}, {"count(*)": 2})),)
    assert steps[6].reactions == (ReadRows(()),)


def test_reactions_are_printed_as_they_were_read() -> None:
    lines = TRACE.strip().splitlines()
    for step in parse_steps(lines, 1, Path("file.md")):
        assert [f"    {line}" for line in format_reactions(step.reactions)] == lines[step.line : step.last_line]


def test_two_deliveries_of_one_statement_stay_apart() -> None:
    (step,) = parse_steps(("A x=1", "    out + x=1", "    out + x=2", "        + x=3"), 1, Path("file.md"))
    assert step.reactions == (
        StatementDelivery("out", ({"x": 1},), ()),
        StatementDelivery("out", ({"x": 2}, {"x": 3}), ()),
    )


@pytest.mark.parametrize(
    ("trace", "line", "message"),
    [
        ("    out + a=1", 6, "a reaction without a stimulus"),
        ("A x=1\n    out + a=x", 7, "not a JSON value"),
        ("A x=1\n    out - a=1\n        + a=2", 8, "insert rows come before remove rows"),
        ("A x=1\n    what is this", 7, "expected a reaction"),
        ("A x=1\n    out (empty)\n        + a=1", 8, "has no rows"),
        ("iterate out\n    = (none)\n    = a=1", 7, "stands alone"),
        ("@soon", 6, "expected '@TIME'"),
        ("set V 5", 6, "expected 'NAME = JSON'"),
        ("table T = [1]", 6, "array of arrays"),
        ("A x", 6, "expected '=' after the name 'x'"),
    ],
)
def test_errors_name_file_and_line(trace: str, line: int, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        only_case(f"# a\n```epl\n```\n\n```trace\n{trace}\n```\n")
    assert str(caught.value).startswith(f"file.md:{line}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ("```config\nstart 5\n```", "expected 'key = JSON'"),
        ("```config\nstart = five\n```", "not a JSON value"),
        ("```apama\nx\n```", "needs the name"),
        ("```error\nx\n```", "directly below an 'invalid' fence"),
        ("```invalid cobol\nx\n```", "'cobol' is no dialect"),
        ("refuses: rows", "expected 'refuses: ENGINE"),
    ],
)
def test_malformed_fences(blocks: str, message: str) -> None:
    with pytest.raises(ScenarioError, match=r"file\.md:") as caught:
        only_case(f"# a\n{blocks}\n```trace\n```\n")
    assert message in str(caught.value)


def test_blocks_before_the_first_heading_are_no_case(tmp_path: Path) -> None:
    path = tmp_path / "file.md"
    path.write_text("words\n\n```epl\nselect 1\n```\n```trace\n```\n\n# a\n", encoding="utf-8")
    with pytest.raises(ScenarioError, match=r"file\.md:3: a case needs a heading above its blocks"):
        read(path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FILE, True),
        ("# cepbook\n\n```epl\nselect * from A\n```\n", False),
        ("# cepbook\n\n```epl\nselect * from A\n```\n\n## b\n\n```trace\nA x=1\n```\n", False),
        ("```epl\nselect 1\n```\n```trace\n```\n", True),  # one that cannot be read: its case lacks a heading
        ("```epl\nselect 1\n```\n", False),
        ("# how to\n\n````markdown\n## a\n\n```epl\n```\n```trace\n```\n````\n", False),
        ("# a\n\n```invalid\nselect\n```\n", False),
        ("# a\n\n```invalid apama\nselect\n```\n", True),
        ("# a\n```streamcruncher out\n```\n```trace\n```\n", True),
        ("no Markdown at all", False),
        ("", False),
    ],
)
def test_which_files_are_scenario_files(text: str, expected: bool) -> None:
    assert is_scenario(text) is expected


def test_a_longer_fence_hides_shorter_ones() -> None:
    assert case_sections("# a\n````text\n```trace\n```\n````\n") == ()


def test_strings_may_hold_line_separators() -> None:
    case = only_case('# a\n```epl\n```\n```trace\nA x="\u2028"\nA x=1\n```\n')
    trace = case.fences[1]
    assert isinstance(trace, TraceFence)
    assert [step.line for step in trace.steps] == [5, 6]
