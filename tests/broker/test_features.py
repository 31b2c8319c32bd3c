"""UpdateFeatures: which levels are stored, and which clients see them. Scripts have what Kafka answers."""

import pytest
from tests.broker.conftest import Restart
from tests.broker.raw import Raw
from tests.broker.test_consumer_groups import beat, find_coordinator

from kohort.model.errors import ErrorCode
from kohort.testing.broker import Broker
from kohort.wire.messages.api_versions import ApiVersionsRequest
from kohort.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE, SAFE_DOWNGRADE = 1, 2


def set_level(
    raw: Raw, level: int, kind: int = UPGRADE, name: str = "group.version"
) -> UpdateFeaturesResponse:
    update = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
    reply = raw.send(UpdateFeaturesRequest(feature_updates=[update]), 1)
    assert isinstance(reply, UpdateFeaturesResponse)
    return reply


def published(raw: Raw) -> tuple[list[tuple[str, int]], int, int]:
    """The levels in force, their epoch, and how many features are supported."""
    request = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    reply = raw.send(request, 4)
    levels = [(each.name, each.max_version_level) for each in reply.finalized_features]
    return levels, reply.finalized_features_epoch, len(reply.supported_features)


def test_a_level_lasts_and_every_change_of_it_has_a_newer_epoch(restart: Restart) -> None:
    raw = restart()
    assert published(raw) == ([("group.version", 1)], 0, 1)
    assert set_level(raw, 0, SAFE_DOWNGRADE).error_code == 0
    assert published(raw) == ([], 1, 1)
    raw = restart()
    assert published(raw) == ([], 1, 1)
    assert beat(raw, 0, "t").error_code == ErrorCode.UNSUPPORTED_VERSION
    assert set_level(raw, 1).error_code == 0
    assert published(raw) == ([("group.version", 1)], 2, 1)
    find_coordinator(raw)
    assert beat(raw, 0, "t").error_code == 0


@pytest.mark.usefixtures("both_paths")
def test_members_are_refused_at_once_and_find_their_group_again(raw: Raw, broker: Broker) -> None:
    find_coordinator(raw)
    beat(raw, 0, "t")
    assert [beat(raw, 1).error_code for _ in range(3)] == [0, 0, 0]
    set_level(raw, 0, SAFE_DOWNGRADE)
    assert [beat(raw, 1).error_code for _ in range(3)] == [ErrorCode.UNSUPPORTED_VERSION] * 3
    set_level(raw, 1)
    assert [beat(raw, 1).error_code for _ in range(3)] == [0, 0, 0]
    set_level(raw, 0, SAFE_DOWNGRADE)
    broker.advance(45_000)
    set_level(raw, 1)
    assert beat(raw, 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_refusal_says_what_is_and_what_may_be(raw: Raw) -> None:
    lower = set_level(raw, 0)
    assert lower.error_code == ErrorCode.INVALID_UPDATE_VERSION
    assert lower.error_message == (
        "Nothing was changed: version 0 of feature group.version is refused. "
        "It is 1: a lower one needs the upgrade type for a safe or an unsafe downgrade."
    )
    high = set_level(raw, 2)
    assert high.error_message is not None
    assert high.error_message.endswith("This broker supports versions 0 to 1.")


def test_a_feature_that_is_not_there_has_no_level(raw: Raw) -> None:
    assert set_level(raw, 1, name="transaction.version").error_code == ErrorCode.INVALID_UPDATE_VERSION
    with (
        Broker(configs={"group.coordinator.rebalance.protocols": "classic"}) as broker,
        Raw(broker.bootstrap) as only_classic,
    ):
        assert set_level(only_classic, 1).error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert published(only_classic) == ([], -1, 0)


def test_a_change_is_in_the_log_with_who_made_it(raw: Raw, caplog: pytest.LogCaptureFixture) -> None:
    set_level(raw, 0, SAFE_DOWNGRADE)
    set_level(raw, 0, SAFE_DOWNGRADE)
    (line,) = [record.getMessage() for record in caplog.records if "feature" in record.getMessage()]
    assert line.endswith("changes feature group.version from version 1 to 0")
