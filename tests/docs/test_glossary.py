"""Every name of the articles has a place, and every place exists."""

import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "glossary.md"
ROWS = re.findall(r"^\| (?!name in)([^|]+?) \| `([\w.]+)`", PAGE.read_text(), re.MULTILINE)

# What the issue that asked for the page names; in the articles' own spelling.
DEMANDED = [
    *("GroupCoordinator", "GroupMetadata", "MemberMetadata"),
    *("Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"),
    *("DelayedOperation", "tryComplete", "forceComplete", "onComplete", "onExpiration"),
    *("DelayedOperationPurgatory", "DelayedJoin", "InitialDelayedJoin", "DelayedSync", "DelayedHeartbeat"),
    *("timing wheel", "protocol vote", "leader choice", "pending members", "static members"),
    # The walk of the consumer's poll.
    *("KafkaConsumer.poll", "ConsumerCoordinator.poll", "updateAssignmentMetadataIfNeeded"),
    *("ensureCoordinatorReady", "lookupCoordinator", "sendFindCoordinatorRequest", "ensureActiveGroup"),
    *("joinGroupIfNeeded", "onJoinPrepare", "initiateJoinGroup", "sendJoinGroupRequest"),
    *("JoinGroupResponseHandler", "onJoinLeader", "onJoinFollower", "performAssignment"),
    *("sendSyncGroupRequest", "SyncGroupResponseHandler", "onJoinComplete", "updateFetchPositions"),
]


@pytest.mark.parametrize(("name", "place"), ROWS, ids=[name for name, _ in ROWS])
def test_the_place_of_a_name_exists(name: str, place: str) -> None:
    module, found = place, None
    while found is None:
        module, _, _ = module.rpartition(".")
        assert module, f"{name}: nothing of {place} can be imported"
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError:
            continue
    for part in place.removeprefix(module + ".").split("."):
        assert hasattr(found, part), f"{name}: {place} does not exist"
        found = getattr(found, part)


@pytest.mark.parametrize("name", DEMANDED)
def test_the_page_has_the_name(name: str) -> None:
    assert any(name in names.split(", ") for names, _ in ROWS)
