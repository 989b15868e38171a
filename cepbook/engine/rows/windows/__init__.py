"""One module per data window, named as in EPL."""

from cepbook.engine.rows.windows import keepall, lastevent, length, length_batch, time, time_batch, unique
from cepbook.engine.rows.windows.form import Batch, Sliding

SLIDING: dict[str, Sliding] = {
    "keepall": keepall.WINDOW,
    "lastevent": lastevent.WINDOW,
    "length": length.WINDOW,
    "time": time.WINDOW,
    "unique": unique.WINDOW,
}
BATCH: dict[str, Batch] = {
    "length_batch": length_batch.WINDOW,
    "time_batch": time_batch.WINDOW,
}
