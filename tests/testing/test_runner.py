from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from cepbook.testing.engines import RowsEngine
from cepbook.testing.report import failure_report, first_difference
from cepbook.testing.runner import CaseResult, Outcome, run
from cepbook.testing.scenario import case_sections, parse_case

from .fake_engine import FakeEngine

ECHO = "```epl\n@name('out') from Tick\n```\n"


def case_text(trace: str, epl: str = ECHO, tags: str = "", config: str = "") -> str:
    settings = f"```config\n{config}\n```\n" if config else ""
    return f"# a case\n\ntags: {tags}\n\n{settings}{epl}```trace\n{trace}\n```\n"


def run_text(text: str) -> CaseResult:
    (section,) = case_sections(text)
    return run(parse_case(section, Path("file.md")), FakeEngine)


def outcome(trace: str, epl: str = ECHO, tags: str = "", config: str = "") -> Outcome:
    return run_text(case_text(trace, epl, tags, config)).outcome


def test_a_case_passes_when_every_reaction_is_as_expected() -> None:
    result = run_text(
        case_text('Tick symbol="A" price=500\n    out + symbol="A" price=500.0\nCount n=1\n    out + n=1')
    )
    assert (result.outcome, result.disagreement) == (Outcome.PASSED, None)
    assert [step.agrees for step in result.steps] == [True, True]


def test_the_difference_between_int_and_float_counts() -> None:
    assert outcome("Count n=1\n    out + n=1.0") is Outcome.FAILED


def test_a_missing_and_an_unexpected_delivery_fail() -> None:
    assert outcome("Count n=1") is Outcome.FAILED
    assert outcome("Count n=1\n    out + n=1\n    out + n=1") is Outcome.FAILED


def test_atomicity_counts() -> None:
    epl = "```epl\n@name('out') twice\n```\n"
    assert outcome("Count n=1\n    out + n=1\n    out - n=1", epl) is Outcome.PASSED
    assert outcome("Count n=1\n    out + n=1\n        - n=1", epl) is Outcome.FAILED


def test_the_order_across_statements_counts() -> None:
    epl = "```epl\n@name('a') from Tick; @name('b') from Tick\n```\n"
    assert outcome("Count n=1\n    a + n=1\n    b + n=1", epl) is Outcome.PASSED
    assert outcome("Count n=1\n    b + n=1\n    a + n=1", epl) is Outcome.FAILED


def test_a_recorded_case_agrees_with_or_without_priorities_as_a_whole() -> None:
    epl = "create schema S(n int); @name('a') select n from S; @name('b') select n from S(n > 0);"
    both = {"deployed": "    a + n=1\n    b + n=1", "indexed": "    b + n=1\n    a + n=1"}

    def passes(order: str, tags: str, config: str = "") -> bool:
        text = case_text(f"S n=1\n{order}", f"```epl\n{epl}\n```\n", tags, config)
        return run(parse_case(case_sections(text)[0], Path("file.md")), RowsEngine).outcome is Outcome.PASSED

    assert [passes(order, "x") for order in both.values()] == [True, False]
    assert [passes(order, "x; oracle: somebody") for order in both.values()] == [True, True]
    off = "prioritized = false"
    assert [passes(order, "x; oracle: somebody", off) for order in both.values()] == [False, True]
    assert not passes(f"{both['deployed']}\nS n=1\n{both['indexed']}", "x; oracle: somebody")


def test_rows_within_a_delivery_are_a_multiset_only_with_the_tag_unordered() -> None:
    epl = "```epl\n@name('out') backwards\n```\n"
    trace = "Count n=1\n    out + n=1\nCount n=2\n    out + n=1\n        + n=2\niterate out\n    = n=2\n    = n=1"
    assert outcome(trace, epl) is Outcome.FAILED
    assert outcome(trace, epl, tags="unordered") is Outcome.PASSED


def test_empty_deliveries_count_only_with_the_tag_forced() -> None:
    epl = "```epl\n@name('out') empty\n```\n"
    assert outcome("Count n=1", epl) is Outcome.PASSED
    assert outcome("Count n=1\n    out (empty)", epl) is Outcome.PASSED
    assert outcome("Count n=1", epl, tags="forced") is Outcome.FAILED
    assert outcome("Count n=1\n    out (empty)", epl, tags="forced") is Outcome.PASSED
    assert outcome("Count n=1\n    out (empty)", tags="forced") is Outcome.FAILED


def test_readings() -> None:
    trace = """iterate out
    = (none)
Tick price=2
    out + symbol=null price=2.0
iterate out
    = symbol=null price=2.0
query select * from W
    = symbol=null price=2.0
partitions Ctx
    = id=0 name="Ctx"
set V = [1]
get V
    = value=[1]
table T = [[1]]
iterate out
    = T=[1]
together Count n=1 ;; Count n=2
    out + n=1
    out + n=2"""
    assert first_difference(run_text(case_text(trace))) == ""
    assert outcome("iterate out") is Outcome.FAILED  # an empty reading is '(none)'


def test_events_are_coerced_deeply() -> None:
    engines: list[FakeEngine] = []

    def open_engine(start: int, options: object) -> FakeEngine:
        engines.append(FakeEngine(start, {}))
        return engines[0]

    text = case_text('Order total=10 first={"price": 1} ticks=[{"symbol": "A", "price": 2}]', "```epl\n```\n")
    run(parse_case(case_sections(text)[0], Path("file.md")), open_engine)
    assert engines[0].sent == [
        (
            "Order",
            {
                "id": None,
                "total": Decimal(10),
                "first": {"symbol": None, "price": 1.0},
                "ticks": [{"symbol": "A", "price": 2.0}],
            },
        )
    ]


def test_the_clock_starts_as_configured_and_steps() -> None:
    trace = "@3000\n    out + now=3000\n@5000 stepping\n    out + now=4000\n    out + now=5000"
    assert outcome(trace, config="start = 2000") is Outcome.PASSED


def test_listen_and_names() -> None:
    epl = "```epl\n@name('a') from Tick; @name('b') from Tick\n```\n```epl late\n@name('c') from Tick\n```\n"
    assert outcome("Count n=1\n    a + n=1\n    b + n=1\n    c + n=1\nundeploy late", epl) is Outcome.PASSED
    assert outcome("Count n=1\n    c + n=1", epl, config='listen = ["c"]') is Outcome.PASSED
    assert outcome("Count n=1", epl, config="listen = []") is Outcome.PASSED


def test_variables_of_the_configuration_are_declared_first() -> None:
    config = 'variable V = {"type": "int", "value": 5, "constant": true}'
    assert outcome('get V\n    = value="5"', config=config) is Outcome.PASSED


def test_failures_of_a_stimulus() -> None:
    assert outcome("undeploy nope\n    ! runtime") is Outcome.PASSED
    assert outcome("undeploy nope") is Outcome.FAILED
    assert outcome("undeploy main\n    ! runtime") is Outcome.FAILED


def test_failures_of_a_statement_stand_beside_deliveries() -> None:
    epl = "```epl\n@name('bad') fails; @name('good') from Tick\n```\n"
    assert outcome("Count n=1\n    good + n=1\n    ! bad", epl) is Outcome.PASSED
    assert outcome("Count n=1\n    ! runtime\n    good + n=1", epl) is Outcome.PASSED
    assert outcome("Count n=1\n    good + n=1\n    ! good", epl) is Outcome.FAILED
    assert outcome("Count n=1\n    good + n=1", epl) is Outcome.FAILED


def test_deliveries_during_a_deployment_belong_to_deployed() -> None:
    epl = ECHO + "```epl late\nannounce\n```\n"
    assert outcome("deployed\n    out + n=1", epl) is Outcome.PASSED
    result = run_text(case_text("Count n=2\n    out + n=2", epl))
    assert result.outcome is Outcome.FAILED
    assert "no 'deployed' line expects them" in failure_report(result, "file.md")


def test_invalid_text_must_be_refused_with_a_diagnostic() -> None:
    def invalid(text: str, kind: str = "invalid", error: str = "") -> CaseResult:
        return run_text(f"# a\n{ECHO}```{kind}\n{text}\n```\n{error}")

    assert invalid("wrong").outcome is Outcome.PASSED
    assert invalid("wrong", "invalid-query").outcome is Outcome.PASSED
    accepted = invalid("fine")
    assert accepted.outcome is Outcome.FAILED
    assert "but it was accepted" in failure_report(accepted, "file.md")
    other = invalid("nameless")
    assert other.outcome is Outcome.FAILED
    assert "no diagnostic, but UsageError: there is no such thing" in failure_report(other, "file.md")
    assert invalid("unsupported").outcome is Outcome.NOT_COVERED
    recorded = "```error\nunknown-word: wrong is unknown-word\n  --> epl:1:1\n1 | wrong\n  | ^^^^^\n```\n"
    assert invalid("wrong", error=recorded).outcome is Outcome.PASSED
    changed = invalid("wrong", error=recorded.replace("unknown-word: w", "W"))
    assert changed.outcome is Outcome.FAILED
    assert "-Wrong is unknown-word" in failure_report(changed, "file.md")


def test_refusals_and_their_declaration() -> None:
    unsupported = "```epl\nunsupported\n```\n"
    result = run_text(case_text("Count n=1", unsupported))
    assert result.outcome is Outcome.NOT_COVERED
    assert "refuses: rows — unsupported is not-supported-yet" in str(result.disagreement)
    declared = run_text(case_text("Count n=1", "refuses: rows — not yet\n\n" + unsupported))
    assert (declared.outcome, declared.disagreement) == (Outcome.NOT_COVERED, None)
    for_others = run_text(case_text("Count n=1", "refuses: columns — not yet\n\n" + unsupported))
    assert for_others.disagreement is not None
    wrongly = run_text(case_text("Count n=1\n    out + n=1", "refuses: rows — not yet\n\n" + ECHO))
    assert wrongly.outcome is Outcome.PASSED
    assert "line 5 says that the rows engine refuses this case, but it passes" in str(wrongly.disagreement)


def test_dialects_and_unknown_settings_are_refused() -> None:
    assert outcome("Count n=1", "```apama out\nx\n```\n") is Outcome.NOT_COVERED
    assert outcome("Count n=1", config="unheardOf = 1") is Outcome.NOT_COVERED


def test_a_module_that_does_not_compile_fails_the_case_with_its_diagnostic() -> None:
    result = run_text(case_text("Count n=1", "```epl\nselect wrong\n```\n"))
    assert result.outcome is Outcome.FAILED
    assert "file.md:5: cannot be deployed" in failure_report(result, "file.md")
    assert "1 | select wrong\n    |        ^^^^^" in failure_report(result, "file.md")


def test_a_defect_of_the_engine_is_told_with_its_line_and_traceback() -> None:
    result = run_text(case_text("@1000\n    out + now=1000\nCount n=1", "```epl\n@name('out') boom\n```\n"))
    assert result.outcome is Outcome.FAILED
    shown = failure_report(result, "file.md")
    assert "file.md:11: defect of the engine" in shown
    assert "ZeroDivisionError: boom" in shown
    assert "fake_engine.py" in shown


def test_the_report_shows_expected_and_actual_side_by_side() -> None:
    steps = [f"Count n={n}\n    out + n={n}" for n in range(9)]
    steps[7] = "Count n=7\n    out + n=8\n        + n=9"
    shown = failure_report(run_text(case_text("\n".join(steps))), "file.md").splitlines()
    assert shown[0] == "file.md:1: a case (engine: rows)"
    assert shown[1] == "         ... 4 steps as expected"
    assert shown[-4:] == [
        "    23   Count n=7",
        "             expected  | actual",
        "           > out + n=8 | out + n=7",
        "           >     + n=9 |",
    ]


def test_columns_in_another_order_are_not_shown_as_different() -> None:
    trace = 'Tick symbol="A" price=1\n    out + price=1.0 symbol="A"\n        + n=1'
    shown = failure_report(run_text(case_text(trace)), "file.md")
    assert '             out + price=1.0 symbol="A" | out + price=1.0 symbol="A"' in shown
    assert "           >     + n=1                  |" in shown
