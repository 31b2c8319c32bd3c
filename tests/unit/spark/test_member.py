"""What errors of a commit mean, and how a member of Spark is set up."""

import pytest

from kohort.client.errors import (
    BrokerError,
    CommitFailedError,
    CommitTimeoutError,
    FencedInstanceIdError,
    OffsetFetchTimeoutError,
    RebalanceInProgressError,
)
from kohort.model.errors import ErrorCode, KohortError
from kohort.spark.errors import OptionError
from kohort.spark.member import CommitVerdict, QueryMember, member_settings, verdict
from kohort.spark.options import SourceOptions, parse_source_options


def options(**more: str) -> SourceOptions:
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "kafka.group.id": "g", **more}
    return parse_source_options(given, streaming=True)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (CommitFailedError("g"), CommitVerdict.FENCED),
        (FencedInstanceIdError("g", "one"), CommitVerdict.FENCED),
        (BrokerError(ErrorCode.STALE_MEMBER_EPOCH, "commit"), CommitVerdict.FENCED),
        (RebalanceInProgressError("g"), CommitVerdict.LATER),
        (CommitTimeoutError("g"), CommitVerdict.LATER),
        (OffsetFetchTimeoutError("g"), CommitVerdict.LATER),
        (BrokerError(ErrorCode.NOT_COORDINATOR, "commit"), CommitVerdict.LATER),
        (BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "commit"), CommitVerdict.FATAL),
        (KohortError("anything else"), CommitVerdict.FATAL),
    ],
)
def test_every_error_of_a_commit_has_a_meaning(error: KohortError, expected: CommitVerdict) -> None:
    assert verdict(error) is expected


def test_a_member_commits_by_itself_only_and_makes_no_topics() -> None:
    settings = member_settings(
        options(**{"subscribe": "t", "kafka.metadata.max.age.ms": "7", "kohort.instance": "one"})
    )
    assert settings["enable_auto_commit"] is False
    assert settings["allow_auto_create_topics"] is False
    assert settings["group_instance_id"] == "one"
    assert settings["client_id"] == "spark-g"
    assert settings["metadata_max_age_ms"] == 7


def test_partitions_of_ones_own_choice_are_no_subscription() -> None:
    with pytest.raises(OptionError, match="cannot assign"):
        QueryMember(options(assign='{"t": [0]}'))


def test_a_member_that_never_polled_leaves_without_a_broker() -> None:
    member = QueryMember(options(subscribePattern="t.*"))
    assert member.committed((), 10) == {}
    member.leave(10)


def test_a_member_speaks_the_protocol_that_the_query_names() -> None:
    given = {"subscribe": "t", "kafka.group.protocol": "consumer", "kafka.group.remote.assignor": "range"}
    settings = member_settings(options(**given))
    assert (settings["group_protocol"], settings["group_remote_assignor"]) == ("consumer", "range")
    QueryMember(options(**given)).leave(0)
    with pytest.raises(KohortError, match="session_timeout_ms does not go with group_protocol"):
        QueryMember(options(**given, **{"kafka.session.timeout.ms": "10000"}))
