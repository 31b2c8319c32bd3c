"""When to try again."""

import pytest
from tests.unit.client.scripted import on_loop

from kohort.client.cluster import Deadline, Retry
from kohort.client.errors import BrokerError
from kohort.client.settings import ClientOptions
from kohort.model.errors import ErrorCode, KohortError

OPTIONS = ClientOptions(retry_backoff_ms=100, retry_backoff_max_ms=1_000)


class Time:
    """A clock that only pauses move."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds


class Flaky:
    """Fails with these errors, one after the other, then succeeds."""

    def __init__(self, *errors: KohortError) -> None:
        self.errors = list(errors)
        self.attempts = 0

    async def __call__(self) -> str:
        self.attempts += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


def passing() -> BrokerError:
    return BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "write")


@on_loop
async def test_a_passing_failure_is_repeated_after_telling_whoever_can_mend_it() -> None:
    time, told = Time(), list[KohortError]()
    attempt = Flaky(passing(), passing())
    result = await Retry(OPTIONS, time.sleep, lambda: 0.5).run(
        attempt, Deadline(1_000, time.now), told.append
    )
    assert result == "done"
    assert len(told) == 2
    assert time.seconds == pytest.approx(0.3)


@on_loop
async def test_what_will_not_pass_is_raised_at_once() -> None:
    time = Time()
    attempt = Flaky(BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, "create topic 't'"))
    with pytest.raises(BrokerError, match="TOPIC_ALREADY_EXISTS"):
        await Retry(OPTIONS, time.sleep).run(attempt, Deadline(1_000, time.now), lambda _: None)
    assert attempt.attempts == 1


@on_loop
async def test_after_the_deadline_the_last_failure_is_raised() -> None:
    time = Time()
    attempt = Flaky(*(passing() for _ in range(100)))
    with pytest.raises(BrokerError, match="NOT_LEADER"):
        await Retry(OPTIONS, time.sleep, lambda: 0.5).run(attempt, Deadline(1_000, time.now), lambda _: None)
    assert time.seconds == pytest.approx(0.7)  # 0.1 + 0.2 + 0.4; another 0.8 would be too late
    assert attempt.attempts == 4


@on_loop
async def test_a_deadline_knows_how_much_is_left() -> None:
    time = Time()
    deadline = Deadline(1_500, time.now)
    time.seconds = 1.0
    assert deadline.left_ms == pytest.approx(500)
    time.seconds = 9.0
    assert deadline.left_ms == 0
