"""A topic that is mistyped is an error at once; one that was archived before may be gone."""

from pathlib import Path

import pytest

from kohort.client.admin import Admin
from kohort.spark.pipelines.archive import ArchiveOptions, NoSuchTopicError, check_topics
from kohort.spark.pipelines.table import STATE
from kohort.testing.plugin import Kohort


def check(kohort: Kohort, to: Path, topics: str, *, once: bool = False) -> None:
    options = ArchiveOptions(bootstrap=kohort.bootstrap, topics=topics, to=to, group="g", once=once)
    with Admin(kohort.bootstrap) as admin:
        check_topics(options, admin)


def test_topics_that_are_there_are_archived(kohort: Kohort, tmp_path: Path) -> None:
    one, two = kohort.topic(), kohort.topic()
    check(kohort, tmp_path, f"{one},{two}")
    check(kohort, tmp_path, f"{one[:-1]}.*", once=True)


@pytest.mark.parametrize("once", [True, False])
def test_a_name_without_topic_is_an_error(kohort: Kohort, tmp_path: Path, once: bool) -> None:
    topic = kohort.topic()
    with pytest.raises(NoSuchTopicError, match=r"there is no topic 'nope' \(topics are "):
        check(kohort, tmp_path, f"{topic},nope", once=once)


def test_a_pattern_may_wait_for_its_topics_unless_it_runs_once(kohort: Kohort, tmp_path: Path) -> None:
    check(kohort, tmp_path, "nope-.*")
    with pytest.raises(NoSuchTopicError, match=r"no topic matches 'nope-\.\*'"):
        check(kohort, tmp_path, "nope-.*", once=True)


def test_a_topic_that_was_archived_and_deleted_is_no_error(kohort: Kohort, tmp_path: Path) -> None:
    ledger = tmp_path / "gone" / STATE / "ledger.json"
    ledger.parent.mkdir(parents=True)
    ledger.write_text("{}")
    check(kohort, tmp_path, "gone")
