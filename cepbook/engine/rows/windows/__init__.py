"""One module per data window, named as in EPL.

`SLIDING` and `BATCH` are written into the statement's own code; they serve statements over one window. `VIEWS` are
objects that can be combined; they serve all others. `STATISTICS` make the fields of derived-value windows.
"""

from collections.abc import Callable

from cepbook.engine.rows.windows import (
    correl,
    expr,
    expr_batch,
    ext_timed,
    ext_timed_batch,
    firstevent,
    firstlength,
    firsttime,
    firstunique,
    keepall,
    lastevent,
    length,
    length_batch,
    linest,
    rank,
    size,
    sort,
    time,
    time_accum,
    time_batch,
    time_length_batch,
    time_order,
    timetolive,
    uni,
    unique,
    weighted_avg,
)
from cepbook.engine.rows.windows.derived import Statistic
from cepbook.engine.rows.windows.form import Batch, General, Sliding

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
VIEWS: dict[str, General] = {
    "expr": expr.VIEW,
    "expr_batch": expr_batch.VIEW,
    "ext_timed": ext_timed.VIEW,
    "ext_timed_batch": ext_timed_batch.VIEW,
    "firstevent": firstevent.VIEW,
    "firstlength": firstlength.VIEW,
    "firsttime": firsttime.VIEW,
    "firstunique": firstunique.VIEW,
    "keepall": keepall.VIEW,
    "lastevent": lastevent.VIEW,
    "length": length.VIEW,
    "length_batch": length_batch.VIEW,
    "rank": rank.VIEW,
    "sort": sort.VIEW,
    "time": time.VIEW,
    "time_accum": time_accum.VIEW,
    "time_batch": time_batch.VIEW,
    "time_length_batch": time_length_batch.VIEW,
    "time_order": time_order.VIEW,
    "timetolive": timetolive.VIEW,
    "unique": unique.VIEW,
}
STATISTICS: dict[str, Callable[[], Statistic]] = {
    "correl": correl.Correl,
    "linest": linest.Linest,
    "size": size.Size,
    "uni": uni.Uni,
    "weighted_avg": weighted_avg.WeightedAverage,
}
