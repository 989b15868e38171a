"""Steps that stand between windows and rows, and make other events of what enters."""

from __future__ import annotations

from dataclasses import dataclass

from cepbook.lang.plan import nodes as p


@dataclass(frozen=True, slots=True)
class DeriveOperator:
    """Each change becomes a derived event, and takes the former one back."""

    node: p.Derivation


@dataclass(frozen=True, slots=True)
class UnnestOperator:
    """Each event gives way to those that it contains, which enter all at once."""

    contained: tuple[p.ContainedSelection, ...]


@dataclass(frozen=True, slots=True)
class RecognizeOperator:
    """Runs of rows that a regular expression describes become events."""

    node: p.Recognition
