"""The naive windows themselves: against recorded scenarios, and against traces that the documentation describes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cepbook.lang.registry.windows import WINDOWS
from cepbook.testing import scenario, trace
from tests.engine.windows.references import Change, Event, ExpressionWindow, Window
from tests.engine.windows.texts import Unknown, build, names_of

CORPUS = Path(__file__).parents[2] / "corpus"
FOLDERS = ("windows", "derived")
_STATEMENT = re.compile(
    r"@name\('(?P<name>\w+)'\)\s+select (?:(?P<selector>irstream|istream|rstream) )?(?P<columns>\*|\w+(?:, \w+)*)"
    r" from (?P<type>\w+)(?P<chain>[#.].*)\Z",
    re.DOTALL,
)
_VARIABLE = re.compile(r"create variable (int|long|boolean) (?P<name>\w+) = (?P<value>\S+)\Z")


@dataclass(frozen=True, slots=True)
class Subject:
    """A recorded statement that is nothing but a window: what the reference is held against."""

    case: scenario.ScenarioCase
    module: str
    name: str
    selector: str
    columns: tuple[str, ...] | None
    event_type: str
    chain: str


def subjects(root: Path) -> Iterator[Subject]:
    """The statements ``select … from Type#window`` of the scenarios that `build` understands."""
    for path in sorted(p for folder in FOLDERS for p in (root / folder).glob("*.md")):
        for case in scenario.read(path).cases:
            if any(s.key == "microseconds" for s in settings_of(case)):
                continue
            modules = [f for f in case.fences if isinstance(f, scenario.ModuleFence)]
            epl = "\n".join(m.epl for m in modules)
            if re.search(r"^(on|create context) ", epl, re.MULTILINE):
                continue
            derived = re.findall(r"insert (?:\w+ )?into (\w+)", epl)
            for module in modules:
                for text in module.epl.split(";"):
                    found = _STATEMENT.match(text.strip())
                    if found is None or found["type"] in derived:
                        continue
                    columns = None if found["columns"] == "*" else tuple(found["columns"].split(", "))
                    subject = Subject(
                        case, module.id, found["name"], found["selector"] or "", columns, found["type"], found["chain"]
                    )
                    try:
                        build(subject.chain, **variables_of(case))
                    except Unknown:
                        continue
                    yield subject


def settings_of(case: scenario.ScenarioCase) -> Iterator[scenario.ConfigSetting]:
    for fence in case.fences:
        if isinstance(fence, scenario.ConfigFence):
            yield from fence.settings


def variables_of(case: scenario.ScenarioCase) -> dict[str, Any]:
    texts = (text.strip() for f in case.fences if isinstance(f, scenario.ModuleFence) for text in f.epl.split(";"))
    found = [m for text in texts if (m := _VARIABLE.match(text)) is not None]
    literals = {"true": True, "false": False}
    return {m["name"]: literals[m["value"]] if m["value"] in literals else int(m["value"]) for m in found}


def replay(subject: Subject) -> None:
    """Tell the reference what the case's stimuli are and compare its answers with the recorded reactions."""
    now = next((s.value for s in settings_of(subject.case) if s.key == "start"), 0)
    variables = variables_of(subject.case)
    window: Window | None = None
    for fence in subject.case.fences:
        if isinstance(fence, scenario.ModuleFence) and fence.id == subject.module:
            window = build(subject.chain, now, **variables)
        if not isinstance(fence, scenario.TraceFence):
            continue
        for step in fence.steps:
            made: Change | None = None
            match step.stimulus:
                case trace.Send(event_type, values) if event_type == subject.event_type and window is not None:
                    made = window.arrive(Event(values), now)
                case trace.Advance(time):
                    now = time
                    made = window.advance(now) if window is not None else None
                case trace.SetVariable(name, value):
                    variables[name] = value
                    if isinstance(window, ExpressionWindow) and name in window.variables:
                        window.set(name, value)
                case trace.Iterate(statement) if statement == subject.name and window is not None:
                    recorded = [r.rows for r in step.reactions if isinstance(r, trace.ReadRows)]
                    assert shown(subject, window.contents()) == plain(subject, recorded[0]), step
                case trace.Undeploy(id_) if id_ == subject.module:
                    window = None
            expected = [
                (plain(subject, r.insert), plain(subject, r.remove))
                for r in step.reactions
                if isinstance(r, trace.StatementDelivery) and r.statement == subject.name
            ]
            assert delivered(subject, made) == [e for e in expected if e != ([], []) or forced(subject)], step


def forced(subject: Subject) -> bool:
    return "forced" in subject.case.tags


def delivered(subject: Subject, change: Change | None) -> list[Any]:
    if change is None:
        return []
    insert, remove = shown(subject, change.insert), shown(subject, change.remove)
    delivery: Any = (insert, remove) if subject.selector == "irstream" else (insert, [])
    if subject.selector == "rstream":
        delivery = (remove, [])
    empty = delivery == ([], [])
    return [] if empty and not (forced(subject) and not change.insert and not change.remove) else [delivery]


def shown(subject: Subject, events: Sequence[Event]) -> list[Any]:
    return plain(subject, [e.values for e in events])


def plain(subject: Subject, rows: Sequence[dict[str, Any]]) -> list[Any]:
    """Rows of the selected columns such that equality holds for NaN and within the tolerance for doubles."""
    columns = subject.columns
    found = [{k: same(v) for k, v in row.items() if columns is None or k in columns} for row in rows]
    return sorted(found, key=repr) if "unordered" in subject.case.tags else found


def same(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else pytest.approx(value, rel=1e-9)
    return value


SUBJECTS = list(subjects(CORPUS))


def test_no_window_is_missing() -> None:
    assert {name for subject in SUBJECTS for name in names_of(subject.chain)} == set(WINDOWS)


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda s: f"{s.case.name}-{s.name}")
def test_recorded(subject: Subject) -> None:
    replay(subject)
