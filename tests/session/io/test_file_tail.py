"""Growing files: rotations that race with a look, writers that are late, files that are touched, and saved places."""

from __future__ import annotations

import asyncio
import builtins
import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from cepbook.errors import UsageError
from cepbook.session import inlets
from cepbook.session.io.live import file_tail
from cepbook.session.io.live.live_sources import Link, Located, Malformed


def lines(*numbers: int) -> str:
    return "".join(f'{{"x": {x}}}\n' for x in numbers)


class Looks:
    """A tail whose looks happen by hand."""

    def __init__(self, path: Path, offset: Any = None, **options: Any) -> None:
        self.events: list[Any] = []
        self.links: list[str] = []
        self.offset: Any = None
        self._wake = asyncio.Event()
        self._asleep = asyncio.Event()
        source = inlets.tail(path, begin=True, sleep=self._sleep, **options)
        self._items: AsyncIterator[Any] = source.open({} if offset is None else {"": offset})
        self.task = asyncio.ensure_future(self._run())

    async def _sleep(self, _seconds: float) -> None:
        self._asleep.set()
        await self._wake.wait()
        self._wake.clear()

    async def _run(self) -> None:
        async for item in self._items:
            if isinstance(item, Link):
                self.links.append(item.reason)
                continue
            self.offset = item.offset if isinstance(item, Located) else self.offset
            event = item.item if isinstance(item, Located) else item
            if event is not None:
                self.events.append(event)

    async def look(self, count: int = 1) -> None:
        for _ in range(count):
            self._asleep.clear()
            self._wake.set()
            await asyncio.wait({self.task, asyncio.ensure_future(self._asleep.wait())}, return_when="FIRST_COMPLETED")

    async def begin(self) -> Looks:
        await asyncio.wait({self.task, asyncio.ensure_future(self._asleep.wait())}, return_when="FIRST_COMPLETED")
        return self

    async def end(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self._items.aclose()  # type: ignore[attr-defined]

    @property
    def numbers(self) -> list[int]:
        return [event["x"] for event in self.events]


def run(scenario: Any) -> Any:
    return asyncio.run(asyncio.wait_for(scenario, 30))


class Faults:
    """Lets the nth use of a file from now on fail, as after a rename or without a right."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left, self.uses = -1, 0
        for owner, name in ((os, "open"), (builtins, "open"), (os, "stat")):
            monkeypatch.setattr(owner, name, self._failing(getattr(owner, name)))

    def _failing(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *arguments: Any, **options: Any) -> Any:
            if "tail.jsonl" in str(path) and self.left >= 0:
                self.uses += 1
                self.left -= 1
                if self.left == 0:
                    raise FileNotFoundError(2, "No such file or directory", path)
            return real(path, *arguments, **options)

        return call


def renamed(path: Path) -> None:
    path.rename(f"{path}.1")
    path.write_text(lines(3, 4))


def copied(path: Path) -> None:
    Path(f"{path}.1").write_bytes(path.read_bytes())
    path.write_text(lines(3, 4))


@pytest.mark.parametrize("rotate", [renamed, copied])
def test_a_file_that_cannot_be_opened_in_this_moment_ends_nothing(
    rotate: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = Faults(monkeypatch)

    async def scenario(failing: int) -> int:
        path = tmp_path / f"{failing}" / "tail.jsonl"
        path.parent.mkdir()
        path.write_text(lines(0))
        Path(f"{path}.2").write_text(lines(-1))
        tail = await Looks(path).begin()
        with path.open("a") as file:
            file.write(lines(1, 2))
        if rotate is renamed:
            await tail.look()
        rotate(path)
        faults.left, faults.uses = failing, 0
        await tail.look(2 * file_tail.QUIET)
        uses, faults.left = faults.uses, -1
        await tail.look(2 * file_tail.QUIET)
        assert not tail.task.done()
        if rotate is copied and tail.links and "may be lost" in tail.links[0]:  # its copy could not be read
            assert tail.numbers == [0, 3, 4]
        else:
            assert tail.numbers == [0, 1, 2, 3, 4]
        await tail.end()
        return uses

    count = run(scenario(1000))
    assert count > 5
    for failing in range(1, count + 1):
        run(scenario(failing))


def test_what_the_old_writer_adds_after_a_rotation_is_read(tmp_path: Path) -> None:
    async def scenario(looks: int) -> None:
        path = tmp_path / f"{looks}.jsonl"
        path.write_text(lines(0))
        tail = await Looks(path).begin()
        with path.open("a") as old:
            path.rename(f"{path}.1")
            path.write_text(lines(9))
            for number in range(1, 5):
                await tail.look(looks)
                old.write(lines(number)[:4])
                old.flush()
                await tail.look(1)
                old.write(lines(number)[4:])
                old.flush()
        await tail.look(2 * file_tail.QUIET)
        assert tail.numbers == [0, 1, 2, 3, 4, 9]
        await tail.end()

    for looks in range(1, file_tail.QUIET - 1):
        run(scenario(looks))


def test_an_older_file_that_is_touched_is_not_read(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "a.jsonl"
        Path(f"{path}.1").write_text(lines(-2, -1))
        path.write_text(lines(0))
        other = tmp_path / "a.jsonl-2"
        other.write_text(lines(77))
        tail = await Looks(path).begin()
        for number in range(1, 4):
            for old in tmp_path.glob("a.jsonl?*"):
                os.utime(old)
            path.rename(f"{path}.{number + 1}")
            path.write_text(lines(number))
            await tail.look(2 * file_tail.QUIET)
        assert tail.numbers == [0, 1, 2, 3] and not tail.links
        await tail.end()

    run(scenario())


def test_a_file_that_is_gone_is_told_of_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = tmp_path / "a.jsonl"
        path.write_text(lines(0))
        tail = await Looks(path).begin()
        path.unlink()
        await tail.look(5 * file_tail.QUIET)
        assert len(tail.links) == 1 and "there is no file" in tail.links[0]
        path.write_text(lines(1))
        await tail.look(2 * file_tail.QUIET)
        assert tail.numbers == [0, 1]
        await tail.end()

    run(scenario())


TEXTS = {
    "quotes that end": 'x,t\n1,a\n2,"b\nc"\n3,d\n4,"e\n\nf"\n5,g\n',
    "a quote that does not end": 'x,t\n1,"a\n' + "".join(f"{x},b\n" for x in range(2, 150)),
    "two of them": 'x,t\n1,"a\n' + "".join(f"{x},{chr(34) * (x == 50)}b\n" for x in range(2, 250)),
    "wrong lines between": 'x,t\n1,a\n2\n3,"b\n4,c"\n5,6,7\n8,d\n',
}


@pytest.mark.parametrize("kind", TEXTS)
def test_a_tail_continues_at_each_of_its_places(kind: str, tmp_path: Path) -> None:
    """Each record comes once, whatever the item after which the place is saved."""
    data = TEXTS[kind].encode()

    async def all_of(offset: Any = None) -> list[Any]:
        path = tmp_path / "a.csv"
        path.write_bytes(data)
        tail = await Looks(path, offset).begin()
        await tail.look()
        await tail.end()
        return [one.text if isinstance(one, Malformed) else dict(one) for one in tail.events]

    async def scenario() -> None:
        whole = await all_of()
        for stop in range(1, len(whole) + 1, 1 + len(whole) // 40):
            path = tmp_path / "a.csv"
            path.write_bytes(data)
            stream = inlets.tail(path, begin=True).open({})
            items, place = [], None
            async for item in stream:
                place = item.offset
                items += [item.item] if item.item is not None else []
                if len(items) == stop:
                    break
            await stream.aclose()  # type: ignore[attr-defined]
            before = [one.text if isinstance(one, Malformed) else dict(one) for one in items]
            assert before + await all_of(place) == whole, stop

    run(scenario())


def test_a_saved_place_in_a_file_that_goes_away_closes_no_descriptor_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tail.jsonl"
    path.write_text(lines(0, 1))
    faults = Faults(monkeypatch)

    async def scenario(failing: int) -> None:
        stream = inlets.tail(path, begin=True).open({"": (9, 0, b"elsewhere")})
        faults.left = failing
        try:
            await anext(stream)
        except UsageError:
            pass
        except OSError as error:
            assert error.errno == 2  # not EBADF
        finally:
            faults.left = -1
            await stream.aclose()  # type: ignore[attr-defined]

    for failing in range(1, 10):
        asyncio.run(scenario(failing))


@pytest.mark.parametrize("instead", ["directory", "pipe", "loop", "no permission"])
def test_a_path_that_is_no_file_for_a_while(tmp_path: Path, instead: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "f.jsonl"
    path.write_text(lines(1, 2))
    opened = os.open

    def refused(name: Any, *arguments: Any, **options: Any) -> int:
        if name == str(path):
            raise PermissionError(13, "Permission denied")
        return opened(name, *arguments, **options)

    async def scenario() -> Looks:
        looks = await Looks(path).begin()
        path.unlink()
        if instead == "directory":
            path.mkdir()
        elif instead == "pipe":
            os.mkfifo(path)
        elif instead == "loop":
            path.symlink_to(path)
        else:
            path.write_text(lines(3))
            monkeypatch.setattr(file_tail.os, "open", refused)
        await looks.look(30)
        assert not looks.task.done()
        assert len(looks.links) == 1
        assert ("Permission denied" if instead == "no permission" else "there is no file") in looks.links[0]
        monkeypatch.undo()
        path.rmdir() if instead == "directory" else path.unlink()
        path.write_text(lines(3, 4))
        await looks.look(10)
        looks.task.cancel()
        return looks

    assert [event["x"] for event in asyncio.run(scenario()).events] == [1, 2, 3, 4]
