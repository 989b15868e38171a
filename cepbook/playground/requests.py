"""The requests of the playground's page, answered as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cepbook.display import DisplayTable, format_property, format_time
from cepbook.engine.runtime import Runtime
from cepbook.errors import CepbookError, UsageError
from cepbook.playground import exports
from cepbook.playground.csv_events import CsvEvents, csv_events
from cepbook.playground.csv_replay import replay_csv
from cepbook.playground.retained_state import RetainedContents
from cepbook.playground.trial import Problem, Trial, TrialStep, check_module, run_trial
from cepbook.playground.writing_help import completions, format_module, help_at
from cepbook.session.explain.explanations import ExplanationPage, PageFacts, TitledTable
from cepbook.session.explain.marble import MAX_EVENTS, Marble, build_marble
from cepbook.session.explain.why import explain_row
from cepbook.session.explain.why_not import explain_event, known_events, statements_reading
from cepbook.session.inspect.time_columns import TimeColumns
from cepbook.testing.trace import Failure, Iterate, ReadRows, StatementDelivery, format_reactions

Answer = dict[str, Any]


class Playground:
    """Answers requests; questions about rows and events refer to the last trial.

    A request is an object with its ``kind`` and the members of the second column.

    ============  ==========================================  ======================================================
    kind          with                                        answer
    ============  ==========================================  ======================================================
    ``run``       ``module``, ``scenario``                    ``problems``, ``failure``, ``steps``, ``states``,
                                                              ``statements`` (names, in the order of deployment)
    ``lint``      ``module``                                  ``problems``
    ``complete``  ``text``, ``at``, ``in``                    ``typed`` (how much of the word), ``items``
    ``hover``     ``text``, ``at``, ``in``                    ``text``: what the word means, or null
    ``format``    ``module``                                  ``text``
    ``why``       ``statement``, ``delivery``, ``row``        ``page``
    ``fate``      ``event`` (number, from 0)                  ``page``: the outcome of the event per statement
    ``marble``    ``statement``                               the diagram as data
    ``notebook``  ``module``, ``scenario``                    ``text`` of a notebook file
    ``test``      ``module``, ``scenario``                    ``text`` of a scenario file
    ``csv``       ``text``, ``name``                          ``module``, ``events`` (how many), ``type``, ``notes``
    ``replay``    ``module``                                  ``problems``, ``failure``, and the ``statements`` after
                                                              all events of the last CSV file
    ============  ==========================================  ======================================================

    ``in`` is ``module`` or ``scenario``. An answer with ``error`` explains why there is no other.
    """

    def __init__(self) -> None:
        self._trial = Trial("", "")
        self._events: CsvEvents | None = None
        self._runtime = Runtime()  # whose names are completed
        self._answers: dict[str, Callable[[Mapping[str, Any]], Answer]] = {
            "run": self._run,
            "lint": self._lint,
            "complete": self._complete,
            "hover": self._hover,
            "format": lambda request: {"text": format_module(request["module"])},
            "why": self._why,
            "fate": self._fate,
            "marble": self._marble,
            "notebook": lambda request: {"text": exports.notebook(request["module"], request["scenario"])},
            "test": lambda request: {"text": exports.scenario_file(request["module"], request["scenario"])},
            "csv": self._csv,
            "replay": self._replay,
        }

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of all requests."""
        return tuple(self._answers)

    def answer(self, request: str) -> str:
        """Answer one request, as JSON."""
        parsed = json.loads(request)
        try:
            answer = self._answers[parsed["kind"]](parsed)
        except CepbookError as error:
            answer = {"error": str(error)}
        return json.dumps(answer)

    def _run(self, request: Mapping[str, Any]) -> Answer:
        trial = self._trial = run_trial(request["module"], request["scenario"])
        if trial.engine is not None:
            self._runtime = trial.engine.runtime
        states: list[Any] = []
        return {
            "problems": _problems(trial.problems),
            "failure": trial.failure,
            "steps": list(_steps(trial, states)),
            "states": states,
            "statements": [] if trial.engine is None else list(dict.fromkeys(trial.engine.observed)),
        }

    def _lint(self, request: Mapping[str, Any]) -> Answer:
        problems, engine = check_module(request["module"])
        if not problems:
            self._runtime = engine.runtime
        return {"problems": _problems(problems)}

    def _complete(self, request: Mapping[str, Any]) -> Answer:
        in_module = request["in"] == "module"
        typed, items = completions(self._runtime, request["text"], request["at"], in_module=in_module)
        return {"typed": typed, "items": items}

    def _hover(self, request: Mapping[str, Any]) -> Answer:
        in_module = request["in"] == "module"
        return {"text": help_at(self._runtime, request["text"], request["at"], in_module=in_module)}

    def _csv(self, request: Mapping[str, Any]) -> Answer:
        events = self._events = csv_events(request["text"], request["name"])
        return {
            "module": events.module,
            "events": len(events.events),
            "type": events.event_type,
            "notes": events.notes,
        }

    def _replay(self, request: Mapping[str, Any]) -> Answer:
        if self._events is None:
            raise UsageError("no file was read: drop a CSV file on the page")
        problems, engine = check_module(request["module"], self._events.start)
        if problems:
            return {"problems": _problems(problems), "statements": [], "failure": ""}
        statements, failure = replay_csv(engine.runtime, self._events)
        return {
            "problems": [],
            "failure": failure,
            "statements": [
                {
                    "name": statement.name,
                    "total": statement.total,
                    "table": _table(statement.rows),
                    "column": statement.column,
                    "curve": statement.curve,
                    "span": statement.span,
                }
                for statement in statements
            ],
        }

    def _why(self, request: Mapping[str, Any]) -> Answer:
        engine, name = self._trial.engine, request["statement"]
        row = self._trial.delivered_row(name, request["delivery"], request["row"])
        assert engine is not None  # it delivered the row
        return {"page": _page(explain_row(engine.runtime, engine.event_log, name, row, calls=True).page())}

    def _fate(self, request: Mapping[str, Any]) -> Answer:
        engine = self._trial.engine
        if engine is None:
            raise UsageError("nothing ran yet")
        events = known_events(engine.event_log, engine.runtime, list(engine.runtime.catalog.event_types))
        if not 0 <= request["event"] < len(events):
            raise UsageError("this event is not known any more")
        event = events[request["event"]]
        names = statements_reading(engine.runtime, event.type_name or "")
        outcomes = explain_event(engine.runtime, engine.event_log, names, event, hypothetical=False, calls=True)
        return {"page": _page(outcomes.page())}

    def _marble(self, request: Mapping[str, Any]) -> Answer:
        engine, name = self._trial.engine, request["statement"]
        if engine is None or name not in engine.feeds:
            raise UsageError(f"`{name}` is not deployed")
        runtime = engine.runtime
        marble = build_marble(runtime, engine.event_log, engine.feeds[name], name, MAX_EVENTS, None)
        return _marble_data(marble, runtime.config.second)


def _problems(problems: Sequence[Problem]) -> list[Answer]:
    return [
        {
            "in": "module" if problem.in_module else "scenario",
            "from": problem.diagnostic.span.start,
            "to": problem.diagnostic.span.end,
            "message": problem.diagnostic.message,
            "hint": problem.diagnostic.hint,
            "text": problem.text,
        }
        for problem in problems
    ]


def _steps(trial: Trial, states: list[Any]) -> Iterator[Answer]:
    """Yield the steps. A step has the index of its state in `states`, to which a state is appended when it changes."""
    if trial.engine is None:
        return
    runtime = trial.engine.runtime
    times, second = TimeColumns(runtime), runtime.config.second
    deliveries: dict[str, int] = {}
    for step in trial.steps:
        state = {"retained": [_retained(rows) for rows in step.state], "variables": step.variables}
        if not states or states[-1] != state:
            states.append(state)
        yield {
            "text": step.result.step.text.strip(),
            "line": step.result.step.line,
            "now": format_time(step.now, second=second),
            "state": len(states) - 1,
            "agrees": step.agrees,
            "expected": format_reactions(step.result.step.reactions),
            "reactions": [_reaction(step, reaction, times, second, deliveries) for reaction in step.result.actual],
        }


def _reaction(step: TrialStep, reaction: object, times: TimeColumns, second: int, deliveries: dict[str, int]) -> Answer:
    """Return a reaction as data. `deliveries` counts the deliveries by statement, as `Trial.delivered_row` does."""
    match reaction:
        case StatementDelivery(name, insert, remove):
            number = deliveries.get(name, 0)
            deliveries[name] = number + bool(insert or remove)  # without those that have no rows
            signed = [("+", row) for row in insert] + [("−", row) for row in remove]
            rows = [{"sign": sign, "cells": _cells(row, times.of_statement(name), second)} for sign, row in signed]
            return {"statement": name, "delivery": number, "rows": rows}
        case ReadRows(read):
            stimulus = step.result.step.stimulus
            columns = times.of_statement(stimulus.statement) if isinstance(stimulus, Iterate) else frozenset[str]()
            return {"rows": [{"sign": "=", "cells": _cells(row, columns, second)} for row in read]}
        case Failure(what, detail):
            return {"failed": what, "detail": detail}
    raise AssertionError(reaction)


def _cells(row: Mapping[str, Any], times: frozenset[str], second: int) -> list[tuple[str, str]]:
    return [(name, format_property(name, value, times, second)) for name, value in row.items()]


def _retained(rows: RetainedContents) -> Answer:
    return {
        "statement": rows.statement,
        "kind": rows.kind,
        "partition": rows.partition,
        "total": rows.total,
        "waiting": rows.waiting,
        "table": _table(rows.rows),
    }


def _table(table: DisplayTable) -> Answer:
    return {"headings": table.headings, "right": table.right, "cells": table.cells, "signs": table.signs}


def _page(page: ExplanationPage) -> Answer:
    return {"title": page.title, "note": page.note, "parts": [_page_section(section) for section in page.parts]}


def _page_section(section: PageFacts | TitledTable | str) -> Answer:
    match section:
        case PageFacts(facts):
            return {"facts": facts}
        case TitledTable(title, table):
            return {"title": title, **_table(table)}
    return {"text": section}


def _marble_data(marble: Marble, second: int) -> Answer:
    def label(event: Mapping[str, Any]) -> str:
        return " ".join(format_property(name, event.get(name), ()) for name in marble.label)

    def row_label(row: Mapping[str, Any]) -> str:
        return ", ".join(f"{name}={format_property(name, value, ())}" for name, value in row.items())

    return {
        "start": marble.start,
        "end": marble.end,
        "first": format_time(marble.start, second=second),
        "last": format_time(marble.end, second=second),
        "windowed": marble.windowed,
        "arrivals": [
            {"time": arrival.time, "label": label(arrival.event), "at": format_time(arrival.time, second=second)}
            for arrival in marble.arrivals
        ],
        "bars": [
            {"entered": bar.entered, "left": bar.left, "arrived": bar.arrived, "label": label(bar.event)}
            for bar in marble.bars
        ],
        "deliveries": [
            {
                "time": delivery.time,
                "insert": list(map(row_label, delivery.insert or ())),
                "remove": list(map(row_label, delivery.remove or ())),
            }
            for delivery in marble.deliveries
        ],
        "notes": marble.notes,
    }
