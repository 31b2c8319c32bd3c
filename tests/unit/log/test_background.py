"""Threads that cannot be started, and tasks that fail: each is noticed by its owner."""

import asyncio
import logging
import threading

import pytest
from tests.unit.log.bench import turn

from kohort.log.background import Background, Threads, ThreadStartError, finish, in_thread


class NoThreads:
    """As under a limit on processes, while ``on``."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.on = True
        start = threading.Thread.start

        def refuse(thread: threading.Thread) -> None:
            if self.on:
                raise RuntimeError("can't start new thread")
            start(thread)

        patch.setattr(threading.Thread, "start", refuse)


def test_threads_are_made_only_when_needed() -> None:
    before = threading.active_count()
    threads = Threads(2, "test")
    assert threading.active_count() == before
    assert threads.submit(threading.current_thread).result() is not threading.current_thread()
    threads.shutdown()
    with pytest.raises(ThreadStartError):
        threads.submit(int)


def test_work_that_gets_no_thread_is_refused_and_not_done_later(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    threads, none = Threads(2, "test"), NoThreads(monkeypatch)
    with pytest.raises(ThreadStartError):
        threads.submit(done.append, "refused")
    none.on = False
    threads.submit(done.append, "accepted").result()
    threads.shutdown()
    assert done == ["accepted"]


def test_work_waits_for_a_thread_that_runs_where_no_other_can_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads, busy = Threads(2, "test"), threading.Event()
    first = threads.submit(busy.wait)
    NoThreads(monkeypatch)
    second = threads.submit(lambda: "done")
    busy.set()
    assert second.result() == "done"
    assert first.result()
    threads.shutdown()


def test_what_a_thread_raises_reaches_the_caller() -> None:
    async def story() -> None:
        threads = Threads(1, "test")
        with pytest.raises(ZeroDivisionError):
            await in_thread(threads, lambda: 1 // 0)
        threads.shutdown()

    asyncio.run(story())


def test_a_task_that_fails_is_reported_in_one_line_and_tried_again_later_and_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pauses: list[int] = []

    async def pause(milliseconds: int) -> None:
        pauses.append(milliseconds)

    async def story() -> None:
        attempts = iter([OSError(5, "bad disk")] * 7)

        async def attempt() -> None:
            for error in attempts:
                raise error

        background = Background(pause)
        background.keep("reopening t-0", attempt)
        background.keep("reopening t-0", attempt)  # is under way
        await turn()
        await turn()

    asyncio.run(story())
    assert pauses == [100, 200, 400, 800, 1_600, 3_000, 3_000]
    assert caplog.messages == ["reopening t-0 failed: [Errno 5] bad disk; it is tried again in 100 ms"]
    assert not any(record.exc_info for record in caplog.records)


def test_a_periodic_job_goes_on_after_a_bug_and_shows_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    done = 0

    async def story() -> None:
        async def pause(_: int) -> None:
            await asyncio.sleep(0)

        async def job() -> None:
            nonlocal done
            done += 1
            assert done > 1, "a bug"

        background = Background(pause)
        background.every("job", lambda: 10, job)
        while done < 3:
            await turn()
        await background.stop()

    asyncio.run(story())
    (record,) = caplog.records
    assert record.exc_info


def test_work_that_was_begun_ends_also_when_its_caller_is_gone(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)

    async def story() -> None:
        gate = asyncio.Event()

        async def work() -> None:
            await gate.wait()
            raise OSError(28, "no space")

        caller = asyncio.ensure_future(finish(work(), "a change"))
        await turn()
        caller.cancel()
        await turn()
        gate.set()
        await turn()

    asyncio.run(story())
    assert caplog.messages == ["a change failed: [Errno 28] no space"]


def test_work_that_comes_up_as_an_attempt_ends_is_begun_by_the_next_call() -> None:
    async def story() -> None:
        ended, attempts = asyncio.Event(), 0

        async def attempt() -> None:
            nonlocal attempts
            attempts += 1
            ended.set()

        background = Background(asyncio.sleep)
        background.keep("following", attempt)
        await ended.wait()  # resumes before the task has said that it is done
        background.keep("following", attempt)
        await turn()
        assert attempts == 2
        await background.stop()

    asyncio.run(story())


def test_a_pause_grows_as_long_as_its_owner_allows() -> None:
    pauses: list[int] = []

    async def pause(milliseconds: int) -> None:
        pauses.append(milliseconds)
        if len(pauses) == 12:
            await asyncio.Event().wait()

    async def story() -> None:
        async def attempt() -> None:
            raise OSError(5, "bad disk")

        background = Background(pause)
        background.keep("opening t-0", attempt, 60_000)
        await turn()
        await background.stop()

    asyncio.run(story())
    assert pauses[-3:] == [51_200, 60_000, 60_000]
