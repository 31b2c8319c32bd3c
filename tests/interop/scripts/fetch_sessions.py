"""Fetch sessions: opening, incremental replies, forgetting, closing, and what is wrong with an epoch."""

from collections.abc import Iterator

from tests.interop.scripts.exchange import Answer, Exchange, Reply
from tests.interop.scripts.fetch import part, reading
from tests.interop.scripts.setting import append, batch, make_topic

from kohort.wire.messages.fetch import FetchRequest, FetchTopic, ForgottenTopic

Steps = Iterator[tuple[str, Answer]]
TOPIC = "script.sessions"


def session_of(answer: Answer) -> int:
    """The session a reply belongs to."""
    assert isinstance(answer, Reply)
    session: int = getattr(answer.message, "session_id")  # noqa: B009 (a Message has no fields of its own)
    return session


def turn(session: int, epoch: int, *topics: FetchTopic) -> FetchRequest:
    """A fetch of a session that does not wait."""
    return FetchRequest(
        max_wait_ms=0, min_bytes=1, session_id=session, session_epoch=epoch, topics=list(topics)
    )


def fetch_sessions(x: Exchange) -> Steps:
    """The life of one session by topic name."""
    topic_id = make_topic(x, TOPIC, 3)
    append(x, TOPIC, batch("a"))
    full = reading(TOPIC, part(0), part(1))
    full.session_epoch = 0
    opened = x.get(full, 12)
    yield "opened", opened
    session = session_of(opened)
    yield "nothing moved on: the same data again", x.get(turn(session, 1), 12)
    read_on = FetchTopic(topic=TOPIC, partitions=[part(0, offset=1)])
    yield "read on", x.get(turn(session, 2, read_on), 12)
    yield "nothing new", x.get(turn(session, 3), 12)
    append(x, TOPIC, batch("b"), partition=1)
    yield "only what changed", x.get(turn(session, 4), 12)
    more = FetchTopic(topic=TOPIC, partitions=[part(2), part(1, offset=1)])
    yield "a partition joins", x.get(turn(session, 5, more), 12)
    forget = turn(session, 6)
    forget.forgotten_topics_data = [ForgottenTopic(topic=TOPIC, partitions=[1, 2])]
    yield "two are forgotten", x.get(forget, 12)
    append(x, TOPIC, batch("c"), partition=1)
    yield "news of a forgotten one is no news", x.get(turn(session, 7), 12)
    yield "an epoch repeated", x.get(turn(session, 7), 12)
    yield "an epoch skipped", x.get(turn(session, 20), 12)
    yield "the right epoch after a wrong one", x.get(turn(session, 8), 12)
    yield "a session nobody has", x.get(turn(123_456_789, 1), 12)
    yield "a new session that starts at 1", x.get(turn(0, 1), 12)
    by_id = FetchTopic(topic_id=topic_id, partitions=[part(0)])
    yield "ids in a session of names", x.get(turn(session, 9, by_id), 13)
    yield from _endings(x, session)


def _endings(x: Exchange, session: int) -> Steps:
    missing = FetchTopic(topic="script.none", partitions=[part(0)])
    unknown = x.get(turn(0, 0, missing), 12)
    yield "opened with an unknown topic", unknown
    yield "the error is told again", x.get(turn(session_of(unknown), 1), 12)
    again = reading(TOPIC, part(0))
    again.session_id, again.session_epoch = session_of(unknown), 0
    reopened = x.get(again, 12)
    yield "replaced by another", reopened
    yield "the replaced one is gone", x.get(turn(session_of(unknown), 2), 12)
    last = reading(TOPIC, part(0))
    last.session_id, last.session_epoch = session_of(reopened), -1
    yield "closed with a last fetch", x.get(last, 12)
    yield "the closed one is gone", x.get(turn(session_of(reopened), 1), 12)
    full = reading(TOPIC, part(0))
    full.session_epoch = 0
    opened = x.get(full, 12)
    yield "one more", opened
    empty = turn(session_of(opened), 1)
    empty.forgotten_topics_data = [ForgottenTopic(topic=TOPIC, partitions=[0])]
    yield "the last partition is forgotten", x.get(empty, 12)
    yield "a session without partitions", x.get(turn(session_of(opened), 2), 12)


def fetch_sessions_by_id(x: Exchange) -> Steps:
    """The same with topic ids."""
    name = "script.sessions-by-id"
    topic_id = make_topic(x, name, 2)
    append(x, name, batch("a"))
    full = reading(topic_id, part(0), part(1))
    full.session_epoch = 0
    opened = x.get(full, 13)
    yield "opened", opened
    session = session_of(opened)
    ahead = FetchTopic(topic_id=topic_id, partitions=[part(0, offset=1)])
    yield "read on", x.get(turn(session, 1, ahead), 13)
    yield "nothing new", x.get(turn(session, 2), 16)
    stranger = FetchTopic(topic_id=bytes(range(16)), partitions=[part(0)])
    yield "an unknown id joins", x.get(turn(session, 3, stranger), 13)
    yield "and is told again", x.get(turn(session, 4), 13)
    yield "names in a session of ids", x.get(turn(session, 5), 12)
    append(x, name, batch("b"))
    forget = turn(session, 5)
    forget.forgotten_topics_data = [ForgottenTopic(topic_id=bytes(range(16)), partitions=[0])]
    yield "the unknown one is forgotten", x.get(forget, 13)
