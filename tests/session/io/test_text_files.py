"""Values of text files: digits, infinities, and files that are damaged."""

from __future__ import annotations

import gzip
import time
import zipfile
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest

from cepbook.errors import EventError
from cepbook.lang import types
from cepbook.session import Workbench
from cepbook.session.io.files import frame_of_objects, read_chunks, read_file
from cepbook.session.io.text_files import TextFormat, field_value


@pytest.mark.parametrize(
    ("text", "of", "value"),
    [
        ("9007199254740993.0", types.LONG, 9007199254740993),
        (" -9007199254740993.00 ", types.LONG, -9007199254740993),
        ("123456789012345678901234.0", types.BIGINTEGER, 123456789012345678901234),
        ("123456789012345678901234.", types.BIGINTEGER, 123456789012345678901234),
        ("1e3", types.LONG, 1000),
        ("1.5e1", types.INT, 15),
        ("1.5", types.LONG, 1.5),
        ("1e-400", types.LONG, "1e-400"),
        ("1e1000000000", types.BIGINTEGER, "1e1000000000"),
        ("inf", types.LONG, "inf"),
        ("inf", types.BIGDECIMAL, "inf"),
        ("1e999", types.DOUBLE, float("inf")),
        ("9" * 5000, types.BIGINTEGER, "9" * 5000),
        ("9" * 4300, types.BIGINTEGER, 10**4300 - 1),
        ("123456789012345678901234.50", types.BIGDECIMAL, Decimal("123456789012345678901234.50")),
        ("-inf", types.DOUBLE, float("-inf")),
        ("", types.BOOLEAN, None),
    ],
)
def test_a_field_keeps_all_digits(text: str, of: types.Type, value: object) -> None:
    converted = field_value(text, of)
    assert converted == value and type(converted) is type(value)


def test_a_long_field_that_is_no_number_is_refused_at_once() -> None:
    began = time.process_time()
    for text in ("1" * 200_000 + "x", "1" * 200_000 + ".x", " " * 200_000 + "x"):
        assert field_value(text, types.DOUBLE) == text
    assert time.process_time() - began < 2


def test_whole_numbers_beside_fractions_keep_their_digits(tmp_path: Path) -> None:
    large = 2**53 + 1
    path = tmp_path / "e.jsonl"
    path.write_text(f'{{"t": 1, "id": 5.0}}\n{{"t": 2, "id": {large}}}\n')
    cep = Workbench()
    cep.run("create schema E(t long, id long); @name('all') select id from E")
    cep.replay(str(path), "E", time="t").run()
    assert cep.changes("all")["id"].tolist() == [5, large]
    path.write_text('{"t": 1, "x": 1152921504606846976}\n{"t": 2, "x": 1.5}\n')
    cep = Workbench()
    cep.run("create schema E(t long, x double); @name('all') select x from E")
    cep.replay(str(path), "E", time="t").run()
    assert cep.changes("all")["x"].tolist() == [2.0**60, 1.5]
    assert frame_of_objects([{"x": 10**400}, {"x": 1.5}], ["x"])["x"].tolist() == [10**400, 1.5]
    assert frame_of_objects([{"x": 1}, {"x": 1.5}], ["x"])["x"].dtype == "float64"


def damaged(path: Path) -> Path:
    """Write the compressed file of a name, with one byte changed."""
    text = b"id,v\n" + b"".join(b"%d,%d\n" % (n, n * n) for n in range(5000))
    if path.name.endswith(".zip"):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("e.csv", text)
    elif path.name.endswith(".xz"):
        import lzma

        path.write_bytes(lzma.compress(text))
    elif path.name.endswith(".bz2"):
        import bz2

        path.write_bytes(bz2.compress(text))
    elif path.name.endswith(".gz"):
        path.write_bytes(gzip.compress(text))
    else:
        path.write_bytes(b"no archive")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("kind", ["csv.gz", "csv.bz2", "csv.xz", "csv.zip", "jsonl.gz", "csv.zst"])
@pytest.mark.parametrize("whole", [True, False])
def test_a_damaged_compressed_file_is_an_error_with_its_name(tmp_path: Path, kind: str, whole: bool) -> None:
    path = damaged(tmp_path / f"e.{kind}")
    with pytest.raises(EventError, match=f"e.{kind}"):
        read_file(str(path)) if whole else list(read_chunks(str(path), None, 100))


def test_no_archive_is_an_error_with_its_name(tmp_path: Path) -> None:
    for kind in ("csv.gz", "csv.bz2", "csv.xz", "csv.zip", "jsonl.gz", "csv.zst"):
        path = tmp_path / f"n.{kind}"
        path.write_bytes(b"id,v\n1,2\n")
        with pytest.raises(EventError, match=f"n.{kind}"):
            read_file(str(path))


def test_samples_split_lines_as_files_do(tmp_path: Path) -> None:
    from cepbook.session.io.files import file_samples

    path = tmp_path / "e.jsonl"
    with path.open("w", encoding="utf-8-sig") as file:
        for number in range(60_000):
            file.write(f'{{"id": {number}, "text": "a\u2028b\u0085c {"x" * 20}"}}\n')
    frames = list(file_samples(str(path), {"id": types.LONG, "text": types.STRING}))
    assert len(frames) == 33 and frames[0].frame["id"].iloc[0] == 0
    assert all(set(sample.frame["text"].str[:5]) == {"a\u2028b\u0085c"} for sample in frames)


def test_pieces_of_parquet_without_a_selection_are_all_columns(tmp_path: Path) -> None:
    import pandas as pd

    path = tmp_path / "e.parquet"
    pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}).to_parquet(path)
    [frame] = read_chunks(str(path), None, 10)
    assert list(frame.columns) == ["a", "b"]
    assert list(next(iter(read_chunks(str(path), {"b": None}, 10))).columns) == ["b"]


def test_a_header_of_one_column_with_another_separator(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("a;b\n1;2\n")
    with pytest.raises(EventError, match='sep=";"'):
        read_file(str(path), None, TextFormat())


@pytest.mark.parametrize("rows", [None, 2, 100])
def test_a_column_with_gaps_keeps_all_digits_and_bad_lines_are_rejected_once(tmp_path: Path, rows: int | None) -> None:
    path = tmp_path / "e.csv"
    lines = ["1,1", "2,2,2", ",3", "4,4", "5", "9007199254740993,6", ",7", "9007199254740995.0,8"]
    path.write_text("\n".join(["id,n", *lines, ""]))
    columns = {"id": types.LONG, "n": types.INT}
    rejected: list[str] = []

    def reject(reason: str, text: str) -> None:
        rejected.append(text)

    if rows is None:
        frames = [read_file(str(path), columns, reject=reject)]
    else:
        frames = list(read_chunks(str(path), columns, rows, reject=reject))
    ids = [None if pd.isna(value) else int(value) for frame in frames for value in frame["id"]]
    assert ids == [1, None, 4, 9007199254740993, None, 9007199254740995]
    assert [value for frame in frames for value in frame["n"]] == [1, 3, 4, 6, 7, 8]
    assert rejected == ["2,2,2", "5"]
