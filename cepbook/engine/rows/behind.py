"""Steps that stand between windows and rows, and make other events of what enters."""

from __future__ import annotations

from dataclasses import dataclass

from cepbook.lang import plan as p


@dataclass(frozen=True, slots=True)
class Derive:
    """Each change becomes a derived event, and takes the former one back."""

    node: p.Derived


@dataclass(frozen=True, slots=True)
class Unfold:
    """Each event gives way to those that it contains, which enter all at once."""

    contained: tuple[p.Contained, ...]


@dataclass(frozen=True, slots=True)
class Recognize:
    """Runs of rows that a regular expression describes become events."""

    node: p.Recognize
