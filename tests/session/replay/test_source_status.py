"""What a live source counts of its connection."""

from __future__ import annotations

from cepbook.session.io.live.live_sources import Link
from cepbook.session.replay.source_status import Reconnection, SourceStatus

SECOND = 1_000_000_000


def test_each_loss_counts_once_and_has_its_gap() -> None:
    now = 100 * SECOND
    status = SourceStatus("A", lambda: now)
    assert status.link(Link(False)) == ("connected", "", 0.0)
    assert status.link(Link(True, "reset", silence=4.0)) == ("reconnecting", "reset", 0.0)
    now += 2 * SECOND
    assert status.link(Link(True, "refused")) == ("", "", 0.0)  # another attempt: the same loss
    assert (status.lost, status.reconnected, status.state, status.note) == (1, 0, "reconnecting", "refused")
    now += 3 * SECOND
    assert status.link(Link(False)) == ("reconnected", "reset", 9.0)
    assert status.note == "reconnected after 9.0 s: reset"
    assert status.link(Link(True, "closed")) == ("reconnecting", "closed", 0.0)
    now += SECOND
    assert status.link(Link(False, "moved")) == ("reconnected", "closed", 1.0)
    assert (status.lost, status.reconnected, status.gap, status.note) == (2, 2, 10.0, "moved")
    assert list(status.reconnections) == [
        Reconnection(96 * SECOND, "reset", 9.0),
        Reconnection(105 * SECOND, "closed", 1.0),
    ]
    assert status.link(Link(False, "three messages are lost")) == ("notice", "three messages are lost", 0.0)
