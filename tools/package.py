"""Build the wheel and the source archive, and try the wheel: `python tools/package.py`, which `make package` calls.

The files go to build/dist. A new virtual environment gets the wheel, what it depends on, and pytest. There the script
of the README runs, then the command line, a scenario file, the extension, and what needs a missing extra. The time of
the last commit is the time of all files (SOURCE_DATE_EPOCH), so that a second build gives the same bytes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import documents

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "dist"
NOTEBOOK = """
import sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell()
shell.colors = "nocolor"
for cell in {cells!r}:
    shell.run_cell(cell)
"""
EXTRAS = [
    "%load_ext cepbook",
    "cep.run(\"create schema A(x int); @name('q') select sum(x) as s from A\")\ncep.send('A', x=1)",
    "cep.spark({})",
    "cep.chart('q')",
    "cep.to_frame('q', as_='arrow')",
    "from cepbook.session.inlets import kafka",
    "async def read():\n    await cep.live({'A': kafka('host:9092', 'topic')})\nawait read()",
]
ANSWERS = {
    "cepbook[spark]": "Spark needs the package pyspark",
    "cepbook[lab]": "frames of Arrow need pyarrow",
    "cepbook[kafka]": "Kafka needs aiokafka",
}


def build(out: Path, *kinds: str) -> list[Path]:
    """Build into *out* with the installed tools; return the files. *kinds* are options of `python -m build`."""
    environment = {**os.environ}
    if "SOURCE_DATE_EPOCH" not in environment:
        git = ["git", "log", "-1", "--format=%ct"]
        done = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=False)
        environment["SOURCE_DATE_EPOCH"] = done.stdout.strip() or "1577836800"
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), *kinds, str(ROOT)]
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    return sorted(out.iterdir())


def check(files: list[Path]) -> None:
    """Run `twine check` and `check-wheel-contents`. Raise CalledProcessError if one of them objects."""
    wheels = [str(path) for path in files if path.suffix == ".whl"]
    for command in (["twine", "check", "--strict", *map(str, files)], ["check_wheel_contents", *wheels]):
        subprocess.run([sys.executable, "-m", *command], check=True)


def readme_cells() -> list[str]:
    """Return the cells of the first section of README.md, and a cell that writes their file."""
    text = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n## Your own data\n")[2].partition("\n## ")[0]
    blocks = documents.blocks(text)
    files = {b.note.removeprefix("file: "): b.text for b in blocks if b.note.startswith("file: ")}
    writing = "\n".join(f"with open({name!r}, 'w') as file: file.write({data!r})" for name, data in files.items())
    return [writing, *(block.text for block in blocks if block.is_cell)]


def trials(python: Path) -> dict[str, tuple[list[str], list[str]]]:
    """Return what runs in the new environment: a command for each trial, and texts that it prints."""
    console = python.with_name("cepbook.exe" if sys.platform == "win32" else "cepbook")
    notebook = [str(python), "-c"]
    missing = [f"pip install '{extra}'" for extra in ANSWERS] + list(ANSWERS.values())
    return {
        "README": ([*notebook, NOTEBOOK.format(cells=readme_cells())], ["insert     anna         3"]),
        "cepbook run": ([str(console), "run", "a.epl", "--in", "A=a.csv", "--time", "at", "--out", "q=q.csv"],
                        ["2 events finished"]),
        "scenario": ([str(python), "-m", "pytest", "-q", "scenario.md"], [" passed"]),
        "extras": ([*notebook, NOTEBOOK.format(cells=EXTRAS)], missing),
    }  # fmt: skip


def try_out(python: Path) -> list[str]:
    """Run all trials with *python* in an empty folder; return what went wrong."""
    problems = []
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with tempfile.TemporaryDirectory(prefix="package-") as folder:
        Path(folder, "a.epl").write_text("@name('q') select sum(x) as s from A#length(3)", encoding="utf-8")
        Path(folder, "a.csv").write_text("at,x\n0,1\n1000,2\n", encoding="utf-8")
        scenario = (ROOT / "tests" / "corpus" / "basic" / "seed.md").read_text(encoding="utf-8")
        Path(folder, "scenario.md").write_text(scenario, encoding="utf-8")
        environment = {**inherited, "PYTHONIOENCODING": "utf-8", "CEPBOOK_PROGRESS": "off", "IPYTHONDIR": folder}
        for name, (command, texts) in trials(python).items():
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False
            )
            printed = done.stdout + done.stderr
            lacking = [text for text in texts if text not in printed]
            if done.returncode or lacking:
                problems.append(
                    f"{name}: exit code {done.returncode}, lacks {lacking}\n{textwrap.indent(printed, '  ')}"
                )
    return problems


def main() -> int:
    OUT.mkdir(parents=True, exist_ok=True)
    for path in OUT.iterdir():
        path.unlink()
    files = build(OUT)
    check(files)
    for path in files:
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes")
    with tempfile.TemporaryDirectory(prefix="environment-") as folder:
        python = Path(folder, "Scripts/python.exe" if sys.platform == "win32" else "bin/python")
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        wheel = next(str(path) for path in files if path.suffix == ".whl")
        subprocess.run([python, "-m", "pip", "install", "--quiet", wheel, "pytest"], check=True)
        problems = try_out(python)
    print("\n".join(problems) or "the wheel alone runs the README, cepbook run, a scenario file, and names the extras")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
