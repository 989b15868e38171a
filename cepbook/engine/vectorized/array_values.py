"""Values of an output column as an array: Python objects are made when somebody reads them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import add, mul, sub
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from cepbook.engine.vectorized.array_columns import StoredColumn, is_null, put_nulls, python_values

ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {"+": add, "-": sub, "*": mul}
_CODES = {"f": "d", "i": "q", "u": "q", "b": "?"}  # by kind of array, those of the standard module `array`


class ArrayValues(Sequence[Any]):
    """Numbers, truth values, or indexes into `texts` or other objects, as an array; null where `missing` is true.

    Views are copied: a statement overwrites its rows later, and a part of a frame does not keep all of it alive.
    """

    __slots__ = ("missing", "texts", "values")

    def __init__(
        self,
        values: npt.NDArray[Any],
        missing: npt.NDArray[np.bool_] | None = None,
        texts: npt.NDArray[np.object_] | None = None,
    ) -> None:
        self.values = values if values.base is None else values.copy()
        self.missing = missing
        self.texts = texts

    @classmethod
    def of_column(cls, column: StoredColumn) -> ArrayValues:
        """Return the values of a column of events."""
        missing = is_null(column.values) if column.gaps else None
        return cls(column.values, missing if missing is not None and missing.any() else None, column.texts)

    def __len__(self) -> int:
        return len(self.values)

    @overload
    def __getitem__(self, at: int) -> Any: ...
    @overload
    def __getitem__(self, at: slice) -> ArrayValues: ...
    def __getitem__(self, at: int | slice) -> Any:
        if isinstance(at, slice):
            return ArrayValues(self.values[at], None if self.missing is None else self.missing[at], self.texts)
        if self.missing is not None and self.missing[at]:
            return None
        return self.values[at].item() if self.texts is None else self.texts[self.values[at]]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def compressed(self, mask: npt.NDArray[np.bool_]) -> ArrayValues:
        """Return the values of the rows where `mask` is true."""
        missing = None if self.missing is None else self.missing[mask]
        return ArrayValues(self.values[mask], missing, self.texts)

    def tolist(self) -> list[Any]:
        """Return plain Python values."""
        plain = python_values(self.values if self.texts is None else self.texts[self.values])
        return plain if self.missing is None else put_nulls(plain, self.missing)

    def packed(self) -> list[Any] | tuple[str, bytes, bytes | None, list[Any] | None]:
        """Return plain data that takes less room than `tolist`: the type code of the array, its bytes, those of
        `missing`, and the texts. Columns whose texts hardly repeat are returned as a list.
        """
        if self.texts is not None and len(self.texts) * 2 > len(self.values):
            return self.tolist()
        code = _CODES[self.values.dtype.kind]
        values = self.values.astype(code, copy=False).tobytes()
        texts = None if self.texts is None else self.texts.tolist()
        return code, values, None if self.missing is None else self.missing.tobytes(), texts
