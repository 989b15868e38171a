"""Compare the public API with an earlier commit: `python tools/public_api.py [REF]`, which `make api` calls.

griffe reads both versions without importing them, and names what a change breaks: removed names, parameters that moved
or became required, other defaults. Only names that users import count, those of `PUBLIC`. Without REF, the last tag is
the earlier commit, and without a tag there is nothing to compare.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
ROOT = Path(__file__).resolve().parent.parent
# Modules whose public names users import. docs/reference describes them, tests/test_public.py checks their docstrings.
PUBLIC = (
    "cepbook",
    "cepbook.charts",
    "cepbook.engine.config",
    "cepbook.errors",
    "cepbook.session",
    "cepbook.session.inlets",
    "cepbook.spark",
    "cepbook.testing",
    "cepbook.widgets",
    "cepbook.widgets.charts",
)


def last_tag() -> str | None:
    """Return the last tag before this commit."""
    command = ["git", "describe", "--tags", "--abbrev=0", "--match", "v*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def breakages(ref: str) -> list[str]:
    """Return a line for each change since *ref* that breaks code of users."""
    import griffe

    before = griffe.load_git("cepbook", ref=ref, repo=ROOT)
    after = griffe.load("cepbook", search_paths=[str(ROOT)])
    public = tuple(f"{path}." for path in public_paths(before))
    return [
        COLOURS.sub("", change.explain(griffe.ExplanationStyle.ONE_LINE))
        for change in griffe.find_breaking_changes(before, after)
        if f"{change.obj.canonical_path}.".startswith(public) and change.obj.is_public
    ]


def public_paths(package: Any) -> set[str]:
    """Return the paths of the functions and classes that the modules of `PUBLIC` offer, and of the bases of these."""
    import griffe

    paths = set()
    for name in PUBLIC:
        try:
            module = package[name.removeprefix("cepbook.")] if name != "cepbook" else package
        except KeyError:  # an earlier version has no such module
            continue
        own = [member for member, it in module.members.items() if not it.is_alias and member[0] != "_"]
        offered = module.exports or own
        for member in map(module.members.get, map(str, offered)):
            try:
                target = member.final_target if member.is_alias else member
                if target.is_class or target.is_function:
                    paths.add(target.canonical_path)
                if target.is_class:
                    paths.update(base.canonical_path for base in target.mro())
            except (AttributeError, ValueError, griffe.AliasResolutionError):  # of another package
                continue
    return paths


def main(words: list[str]) -> int:
    ref = words[0] if words else last_tag()
    if ref is None:
        print("there is no tag yet: nothing is published that a change could break")
        return 0
    lines = breakages(ref)
    print("\n".join(lines) or f"nothing that was public in {ref} is broken")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
