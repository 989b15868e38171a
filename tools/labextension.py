"""Builds the JupyterLab extension that colours EPL, and records which sources the output was made from.

    python tools/labextension.py          # build; needs node and npm
    python tools/labextension.py --check  # say whether the committed output is in step with the sources; needs neither

The output is committed (`cepbook/magics/labextension/static`), so nobody needs node to install or test cepbook.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTENSION = ROOT / "cepbook" / "magics" / "labextension"
OUTPUT = EXTENSION / "static"
RECORD = OUTPUT / "source.sha256"
WORDS = EXTENSION / "src" / "words.json"


def words() -> str:
    """The words that the tokenizer knows, from the grammars, the lexer and the type table; the magics of our cells."""
    from cepbook.dialects.registry import DIALECTS
    from cepbook.editor.cursor import EVENT_CELLS, grammar_keywords
    from cepbook.lang.registry.templates import STATEMENT_TEMPLATES
    from cepbook.lang.syntax.reader.lexer import TIME_UNITS
    from cepbook.lang.types import BY_NAME

    types = sorted(name for name in BY_NAME if "." not in name)
    others = {word for row in DIALECTS.values() for word in row.keywords if word.isalpha() and word.islower()}
    magics = [*(row.magic for row in DIALECTS.values()), "query", *EVENT_CELLS]
    found = {
        "keywords": sorted({*grammar_keywords(), *others}),
        "types": types,
        "units": sorted(TIME_UNITS),
        "magics": magics,
        "skeletons": [{"label": label, "text": text} for label, text in STATEMENT_TEMPLATES.items()],
    }
    return json.dumps(found, indent=1) + "\n"


def source_hash() -> str:
    """One hash over package.json and everything in src."""
    digest = hashlib.sha256()
    for path in (EXTENSION / "package.json", *sorted((EXTENSION / "src").iterdir())):
        digest.update(f"{path.name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def problems() -> list[str]:
    """What is out of step; empty when all is well."""
    found = []
    if WORDS.read_text(encoding="utf-8") != words():
        found.append("src/words.json does not have the words of the language")
    if not RECORD.is_file() or RECORD.read_text(encoding="utf-8").strip() != source_hash():
        found.append("static/ was built from other sources")
    return found


def build() -> None:
    """Build in a temporary directory, so that no node_modules end up in the package."""
    WORDS.write_text(words(), encoding="utf-8")
    with tempfile.TemporaryDirectory() as made:
        work = Path(made) / "labextension"
        shutil.copytree(EXTENSION, work, ignore=shutil.ignore_patterns("static", "node_modules"))
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"], cwd=work, check=True)
        subprocess.run([str(Path(sys.executable).with_name("jupyter-builder")), "build", "."], cwd=work, check=True)
        shutil.rmtree(OUTPUT, ignore_errors=True)
        shutil.copytree(work / "static", OUTPUT)
    RECORD.write_text(source_hash() + "\n", encoding="utf-8")


if __name__ == "__main__":
    if "--check" not in sys.argv[1:]:
        build()
    wrong = problems()
    for problem in wrong:
        print(f"labextension: {problem}; run `python tools/labextension.py`", file=sys.stderr)
    sys.exit(1 if wrong else 0)
