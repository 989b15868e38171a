"""Frames without the rows whose values do not fit, which go to the file of rejected events.

Each rejected row has a reason that begins with its place: the line of a text file, or the position of the row, counted
from 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from cepbook.lang.types import BOOLEAN, LONG, Type, is_numeric
from cepbook.session.io import files
from cepbook.session.io.column_readers import WrongRows, row_name
from cepbook.session.io.event_validation import is_missing
from cepbook.session.io.frame_source import FrameSource, SourceOptions


def open_frame(frame: pd.DataFrame, options: SourceOptions, before: int = 0) -> tuple[FrameSource, pd.DataFrame]:
    """Return the source of a frame, and its rows: without those that do not fit if there is a file of rejected events.

    `before` is the number of rows of the file before the frame. Raises EventError as FrameSource does.
    """
    others = {options.time, options.sequence, *options.event_type.timed}
    is_csv = options.path is not None and options.path.lower().endswith(files.CSV)
    if options.path is not None and is_csv and options.reject is None:
        files.check_numeric_columns(options.path, frame, options.event_type, others, before, options.form)
    if options.reject is None:
        return FrameSource(frame, options), frame
    rest = files.fields_as_values(frame, _typed(options)) if is_csv else frame
    positions, reasons = np.arange(len(frame)), dict[int, str]()
    while True:
        try:
            source = FrameSource(rest, options)
            break
        except WrongRows as error:
            wrong = {at: f"{error.where}: {reason}" for at, reason in error.reasons}
        reasons |= {int(positions[at]): reason for at, reason in wrong.items()}
        fitting = ~np.isin(np.arange(len(rest)), list(wrong))
        rest, positions = files.with_dtypes(rest[fitting]), positions[fitting]
    rows = sorted(reasons)
    for row, place, item in zip(rows, _places(frame, rows, options, before), _items(frame, rows, options), strict=True):
        source.leave_out(options, f"{place}: {reasons[row]}", item, options.now)
    return source, rest


def _typed(options: SourceOptions) -> dict[str, Type]:
    """Return the columns of numbers and booleans. Times may be numbers."""
    properties = {name: of for name, of in options.event_type.properties.items() if is_numeric(of) or of == BOOLEAN}
    times = {name: LONG for name in (options.time, options.sequence) if name is not None}
    return times | properties


def _places(frame: pd.DataFrame, rows: list[int], options: SourceOptions, before: int) -> list[str]:
    if rows and options.path is not None and options.path.lower().endswith((*files.CSV, *files.JSON_LINES)):
        return [f"line {line}" for line in files.lines_of(options.path, [before + row for row in rows], options.form)]
    return [row_name(frame.index, row) for row in rows]


def _items(frame: pd.DataFrame, rows: list[int], options: SourceOptions) -> list[dict[str, Any]]:
    names = {*options.event_type.properties, options.time, options.sequence}
    records: list[dict[Any, Any]] = (
        frame.loc[:, [name in names for name in frame.columns]].iloc[rows].to_dict("records")
    )
    return [{name: None if is_missing(value) else value for name, value in record.items()} for record in records]
