"""``cepbook test``, ``format`` and ``lab``."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

from cepbook.cli import lab_command, main

CASE = """# Cases

## counts

```epl
create schema A(x int);
@name('out') select count(*) as n from A
```

```trace
A x=1
    out + n=1
A x=2
    out + n=%s
```
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_scenarios_pass_fail_and_are_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    Path("good.md").write_text(CASE % 2)
    Path("README.md").write_text("# Not a case\n\n```epl\nselect 1\n```\n")
    assert main(["test", "-v"]) == 0
    assert capsys.readouterr().out == "passed good.md::counts\n1 passed\n"
    Path("bad.md").write_text(CASE % 3)
    assert main(["test", "."]) == 1
    shown = capsys.readouterr().out
    assert "FAILED bad.md::counts" in shown and "n=3" in shown and shown.endswith("1 passed, 1 failed\n")
    assert main(["test", "-k", "good"]) == 0
    assert main(["test", "--record"]) == 0
    assert Path("bad.md").read_text() == CASE % 2
    assert main(["test"]) == 0
    assert capsys.readouterr().out.endswith("2 passed\n")


def test_scenarios_that_cannot_be_read(capsys: pytest.CaptureFixture[str]) -> None:
    Path("odd.md").write_text((CASE % 2).replace("A x=1", "A x=oops"))
    assert main(["test", "odd.md"]) == 1
    assert "FAILED odd.md::counts\nodd.md:11" in capsys.readouterr().out
    assert main(["test", "nowhere"]) == 1
    assert main(["test", "-k", "nothing"]) == 1
    shown = capsys.readouterr().err
    assert "there is no file or folder 'nowhere'" in shown and "there is no scenario case" in shown


def test_format(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    Path("deep").mkdir()
    one, two, bad = Path("one.epl"), Path("deep/two.epl"), Path("bad.epl")
    one.write_text("select  *  from A")
    two.write_text("select * from A\n")
    assert main(["format", "--check", "."]) == 1
    assert one.read_text() == "select  *  from A"
    assert main(["format", "."]) == 0
    assert one.read_text() == "select * from A\n"
    assert main(["format", "--check", "."]) == 0
    bad.write_text("select from")
    one.write_text("select *   from A")
    assert main(["format", "."]) == 1
    assert (one.read_text(), bad.read_text()) == ("select * from A\n", "select from")
    shown = capsys.readouterr()
    assert shown.out == "would format one.epl\nformatted one.epl\nformatted one.epl\n"
    assert "--> bad.epl:1:8" in shown.err
    monkeypatch.setattr("sys.stdin", io.StringIO("select   a from B"))
    assert main(["format", "-"]) == 0
    assert capsys.readouterr().out == "select a from B\n"


@pytest.mark.histories
def test_lab_makes_a_notebook_whose_cells_run(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[list[str]] = []

    def call(command: list[str]) -> int:
        calls.append(command)
        return 0

    monkeypatch.setattr(subprocess, "call", call)
    assert main(["lab", "my book.ipynb", "--", "--no-browser"]) == 0
    assert calls[0][:3] == [sys.executable, "-m", "jupyterlab"]
    assert "--LabApp.default_url=/lab/tree/my%20book.ipynb" in calls[0] and calls[0][-1] == "--no-browser"
    (layout,) = (word.partition("=")[2] for word in calls[0] if word.startswith("--LabApp.workspaces_dir="))
    assert not Path(layout).exists()  # it ends with JupyterLab, so that the next begins with one kernel
    made = json.loads(Path("my book.ipynb").read_text())
    shell = InteractiveShell()
    try:
        for cell in made["cells"]:
            if cell["cell_type"] == "code":
                shell.run_cell(cell["source"]).raise_error()
        assert shell.user_ns["cep"].to_frame("means").to_dict("records") == [{"symbol": "A", "mean": 14.0, "ticks": 1}]
    finally:
        shell.run_line_magic("unload_ext", "cepbook")
    Path("my book.ipynb").write_text("mine")
    assert main(["lab", "my book.ipynb"]) == 0
    assert Path("my book.ipynb").read_text() == "mine"


def test_ctrl_c_is_for_the_lab_to_answer(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[list[str]] = []

    def call(command: list[str]) -> int:
        calls.append(command)
        os.kill(os.getpid(), signal.SIGINT)  # as the terminal sends it to both
        return 0

    monkeypatch.setattr(subprocess, "call", call)
    assert main(["lab", "--", "--no-browser", "--port=0"]) == 0  # options alone: the notebook has its usual name
    assert calls[0][-2:] == ["--no-browser", "--port=0"] and Path("workbench.ipynb").exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler and not capsys.readouterr().err


def test_lab_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(lab_command, "find_spec", lambda name: None)
    assert main(["lab"]) == 1
    assert main(["lab", "notes.txt"]) == 1
    shown = capsys.readouterr().err
    assert "pip install 'cepbook[lab]'" in shown and "is no notebook" in shown
    assert not Path("workbench.ipynb").exists()


def test_ctrl_c_while_the_package_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "pandas.py").write_text("import time\nprint('loading', flush=True)\ntime.sleep(60)\n")
    with subprocess.Popen(
        [sys.executable, "-m", "cepbook", "run", "x.epl"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.readline() == b"loading\n"
        process.send_signal(signal.SIGINT)
        assert (process.wait(20), process.stderr.read()) == (130, b"cepbook: interrupted\n")


@pytest.mark.parametrize("words", [["--help"], ["format", "--help"], ["test", "."]])
def test_a_reader_that_has_enough_is_no_fault(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "case.md").write_text(CASE % 2)
    with subprocess.Popen(
        [sys.executable, "-m", "cepbook", *words],
        cwd=tmp_path, env={**os.environ, "PYTHONUNBUFFERED": ""}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert (process.wait(60), process.stderr.read()) == (141, b"")


@pytest.mark.histories
def test_python_m() -> None:
    shown = subprocess.run([sys.executable, "-m", "cepbook", "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("cepbook 0.")


@pytest.mark.parametrize(("command", "file"), [("format", "a.epl"), ("test", "good.md")])
def test_what_needs_no_frames_does_not_load_pandas(command: str, file: str) -> None:
    """It takes most of a second, and editors format a file whenever it is saved."""
    Path("a.epl").write_text("select * from A\n")
    Path("good.md").write_text(CASE % 2)
    seen = f"import sys; from cepbook.cli import main; print(main(['{command}', '{file}']), 'pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 False"
