"""What each error code of each request leads to: one table for the code, the tests and the docs.

A request that gets no answer (disconnected, timed out) reacts as its row ``NO_ANSWER`` says; a code without a
row of its own as the row ``ANY_OTHER``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from kohort.model.errors import ErrorCode
from kohort.wire.apis import ApiKey


class NextStep(Enum):
    """What follows."""

    JOIN_NOW = "join again at once"
    JOIN_LATER = "join again after retry.backoff.ms"
    RAISE = "raise from poll; a later poll tries again"
    RETRY = "try again with exponential backoff"
    FAIL = "fail this call"
    FAIL_TOPICS = "fail this call, naming every topic with this code"
    FAIL_EXPELLED = "CommitFailed; if another rebalance is being prepared: RebalanceInProgress"
    FAIL_FENCED = "FencedInstanceId; if the generation has changed, as after an expulsion"
    FAIL_STALE = "try again with the newest epoch; fail if the member is out of the group"
    FAIL_REBALANCING = "RebalanceInProgress"
    RECEIVED = "count as a heartbeat: restart the session timer"
    BEAT_LATER = "count as a failed heartbeat: the next one after exponential backoff"
    NOTE = "write it to the log"


class MembershipLoss(Enum):
    """What the member forgets, if it still is in the generation the request was sent in."""

    NOTHING = "nothing"
    GENERATION = "the generation (soft reset)"
    MEMBERSHIP = "the generation and the member id (full reset)"


@dataclass(frozen=True, slots=True)
class Reaction:
    """One row: what follows, what is lost, and what else is learnt."""

    then: NextStep
    loss: MembershipLoss = MembershipLoss.NOTHING
    coordinator_unknown: bool = False
    rejoin: bool = False  # ask for a rejoin at the next poll, keeping everything
    adopts_member_id: bool = False
    beat_now: bool = False  # the answer to a heartbeat says whether the member is out
    hint: str = ""


Special = Literal["any other", "no answer"]
ANY_OTHER: Special = "any other"
NO_ANSWER: Special = "no answer"

_E = ErrorCode
_UNKNOWN_THEN_JOIN = Reaction(NextStep.JOIN_LATER, coordinator_unknown=True)
_RAISE = Reaction(NextStep.RAISE)
_FAIL = Reaction(NextStep.FAIL)
_RETRY = Reaction(NextStep.RETRY)
_LEFT = "the member is out of its group; a later poll joins again"
_RIGHTS = "this client may not use the group that group.id names: ask for the right to"
_UNKNOWN_THEN_RETRY = Reaction(NextStep.RETRY, coordinator_unknown=True)
_UNKNOWN_THEN_BEAT = Reaction(NextStep.BEAT_LATER, coordinator_unknown=True)

REACTIONS: Mapping[ApiKey, Mapping[ErrorCode | Special, Reaction]] = {
    ApiKey.FIND_COORDINATOR: {
        _E.COORDINATOR_NOT_AVAILABLE: _RETRY,
        _E.COORDINATOR_LOAD_IN_PROGRESS: _RETRY,
        _E.GROUP_AUTHORIZATION_FAILED: Reaction(NextStep.RAISE, hint=_RIGHTS),
        _E.INVALID_GROUP_ID: Reaction(NextStep.RAISE, hint="see group.id"),
        NO_ANSWER: _RETRY,
        ANY_OTHER: _RAISE,
    },
    ApiKey.JOIN_GROUP: {
        _E.COORDINATOR_LOAD_IN_PROGRESS: Reaction(NextStep.JOIN_LATER),
        _E.UNKNOWN_MEMBER_ID: Reaction(NextStep.JOIN_NOW, MembershipLoss.MEMBERSHIP),
        _E.COORDINATOR_NOT_AVAILABLE: _UNKNOWN_THEN_JOIN,
        _E.NOT_COORDINATOR: _UNKNOWN_THEN_JOIN,
        _E.FENCED_INSTANCE_ID: _RAISE,
        _E.INCONSISTENT_GROUP_PROTOCOL: Reaction(
            NextStep.RAISE, hint="all members need a partition.assignment.strategy in common"
        ),
        _E.INVALID_SESSION_TIMEOUT: Reaction(
            NextStep.RAISE,
            hint="session.timeout.ms must lie between the broker's group.min.session.timeout.ms "
            "and group.max.session.timeout.ms",
        ),
        _E.INVALID_GROUP_ID: Reaction(NextStep.RAISE, hint="see group.id"),
        _E.GROUP_AUTHORIZATION_FAILED: Reaction(NextStep.RAISE, hint=_RIGHTS),
        _E.GROUP_MAX_SIZE_REACHED: Reaction(NextStep.RAISE, hint="the broker's group.max.size is reached"),
        _E.UNSUPPORTED_VERSION: Reaction(
            NextStep.RAISE, hint="the broker may be too old for static members: unset group.instance.id"
        ),
        _E.MEMBER_ID_REQUIRED: Reaction(NextStep.JOIN_NOW, adopts_member_id=True),
        _E.REBALANCE_IN_PROGRESS: Reaction(NextStep.JOIN_NOW),
        NO_ANSWER: _UNKNOWN_THEN_JOIN,
        ANY_OTHER: _RAISE,
    },
    ApiKey.SYNC_GROUP: {
        _E.REBALANCE_IN_PROGRESS: Reaction(NextStep.JOIN_NOW),
        _E.UNKNOWN_MEMBER_ID: Reaction(NextStep.JOIN_NOW, MembershipLoss.MEMBERSHIP),
        _E.ILLEGAL_GENERATION: Reaction(NextStep.JOIN_NOW, MembershipLoss.GENERATION),
        _E.COORDINATOR_NOT_AVAILABLE: _UNKNOWN_THEN_JOIN,
        _E.NOT_COORDINATOR: _UNKNOWN_THEN_JOIN,
        # Kafka's client gives up here; brokers may send it while they load a partition.
        _E.COORDINATOR_LOAD_IN_PROGRESS: Reaction(NextStep.JOIN_LATER),
        _E.FENCED_INSTANCE_ID: _RAISE,
        _E.GROUP_AUTHORIZATION_FAILED: Reaction(NextStep.RAISE, hint=_RIGHTS),
        NO_ANSWER: _UNKNOWN_THEN_JOIN,
        ANY_OTHER: _RAISE,
    },
    ApiKey.HEARTBEAT: {
        _E.NONE: Reaction(NextStep.RECEIVED),
        _E.COORDINATOR_NOT_AVAILABLE: _UNKNOWN_THEN_BEAT,
        _E.NOT_COORDINATOR: _UNKNOWN_THEN_BEAT,
        _E.REBALANCE_IN_PROGRESS: Reaction(NextStep.RECEIVED, rejoin=True),
        _E.ILLEGAL_GENERATION: Reaction(NextStep.BEAT_LATER, MembershipLoss.GENERATION),
        _E.UNKNOWN_MEMBER_ID: Reaction(NextStep.BEAT_LATER, MembershipLoss.MEMBERSHIP),
        _E.FENCED_INSTANCE_ID: Reaction(NextStep.RAISE, MembershipLoss.MEMBERSHIP),
        _E.GROUP_AUTHORIZATION_FAILED: Reaction(NextStep.BEAT_LATER),
        NO_ANSWER: _UNKNOWN_THEN_BEAT,
        ANY_OTHER: Reaction(NextStep.BEAT_LATER),
    },
    ApiKey.CONSUMER_GROUP_HEARTBEAT: {
        _E.NONE: Reaction(NextStep.RECEIVED),
        _E.COORDINATOR_NOT_AVAILABLE: _UNKNOWN_THEN_BEAT,
        _E.NOT_COORDINATOR: _UNKNOWN_THEN_BEAT,
        _E.COORDINATOR_LOAD_IN_PROGRESS: Reaction(NextStep.BEAT_LATER),
        _E.FENCED_MEMBER_EPOCH: Reaction(NextStep.JOIN_NOW, MembershipLoss.MEMBERSHIP),
        _E.UNKNOWN_MEMBER_ID: Reaction(NextStep.JOIN_NOW, MembershipLoss.MEMBERSHIP),
        _E.TOPIC_AUTHORIZATION_FAILED: _RAISE,
        _E.GROUP_AUTHORIZATION_FAILED: Reaction(NextStep.RAISE, MembershipLoss.MEMBERSHIP, hint=_RIGHTS),
        _E.GROUP_MAX_SIZE_REACHED: Reaction(
            NextStep.RAISE, MembershipLoss.MEMBERSHIP, hint="the broker's group.consumer.max.size is reached"
        ),
        _E.UNSUPPORTED_ASSIGNOR: Reaction(
            NextStep.RAISE,
            MembershipLoss.MEMBERSHIP,
            hint="group.remote.assignor must be one of the broker's group.consumer.assignors",
        ),
        _E.INVALID_REGULAR_EXPRESSION: Reaction(
            NextStep.RAISE,
            MembershipLoss.MEMBERSHIP,
            hint="a SubscriptionPattern is a regular expression of RE2",
        ),
        _E.UNRELEASED_INSTANCE_ID: Reaction(
            NextStep.RAISE,
            MembershipLoss.MEMBERSHIP,
            hint="another consumer runs with this group.instance.id, or ended without leaving: then its "
            "session has to expire first",
        ),
        _E.FENCED_INSTANCE_ID: Reaction(NextStep.RAISE, MembershipLoss.MEMBERSHIP),
        _E.UNSUPPORTED_VERSION: Reaction(NextStep.RAISE, MembershipLoss.MEMBERSHIP),
        NO_ANSWER: _UNKNOWN_THEN_BEAT,
        ANY_OTHER: Reaction(NextStep.RAISE, MembershipLoss.MEMBERSHIP),
    },
    ApiKey.LEAVE_GROUP: {
        NO_ANSWER: Reaction(NextStep.NOTE),
        ANY_OTHER: Reaction(NextStep.NOTE),
    },
    ApiKey.OFFSET_COMMIT: {
        _E.TOPIC_AUTHORIZATION_FAILED: Reaction(NextStep.FAIL_TOPICS),
        _E.GROUP_AUTHORIZATION_FAILED: Reaction(NextStep.FAIL, hint=_RIGHTS),
        _E.OFFSET_METADATA_TOO_LARGE: Reaction(
            NextStep.FAIL, hint="shorten the metadata, or raise the broker's offset.metadata.max.bytes"
        ),
        _E.INVALID_COMMIT_OFFSET_SIZE: Reaction(NextStep.FAIL, hint="commit fewer partitions at a time"),
        _E.COORDINATOR_LOAD_IN_PROGRESS: _RETRY,
        _E.UNKNOWN_TOPIC_OR_PARTITION: _RETRY,
        _E.COORDINATOR_NOT_AVAILABLE: _UNKNOWN_THEN_RETRY,
        _E.NOT_COORDINATOR: _UNKNOWN_THEN_RETRY,
        _E.REQUEST_TIMED_OUT: _UNKNOWN_THEN_RETRY,
        _E.FENCED_INSTANCE_ID: Reaction(NextStep.FAIL_FENCED),
        _E.REBALANCE_IN_PROGRESS: Reaction(NextStep.FAIL_REBALANCING, rejoin=True),
        _E.UNKNOWN_MEMBER_ID: Reaction(NextStep.FAIL_EXPELLED, MembershipLoss.MEMBERSHIP),
        _E.ILLEGAL_GENERATION: Reaction(NextStep.FAIL_EXPELLED, MembershipLoss.GENERATION),
        _E.STALE_MEMBER_EPOCH: Reaction(NextStep.FAIL_STALE),
        NO_ANSWER: _UNKNOWN_THEN_RETRY,
        ANY_OTHER: _FAIL,
    },
    ApiKey.OFFSET_FETCH: {
        _E.COORDINATOR_NOT_AVAILABLE: _UNKNOWN_THEN_RETRY,
        _E.NOT_COORDINATOR: _UNKNOWN_THEN_RETRY,
        _E.COORDINATOR_LOAD_IN_PROGRESS: _RETRY,
        _E.UNSTABLE_OFFSET_COMMIT: _RETRY,
        _E.STALE_MEMBER_EPOCH: Reaction(NextStep.FAIL_STALE, hint=_LEFT),
        _E.UNKNOWN_MEMBER_ID: Reaction(NextStep.FAIL, beat_now=True, hint=_LEFT),
        _E.TOPIC_AUTHORIZATION_FAILED: Reaction(NextStep.FAIL_TOPICS),
        _E.UNKNOWN_TOPIC_OR_PARTITION: _FAIL,
        _E.GROUP_AUTHORIZATION_FAILED: Reaction(NextStep.FAIL, hint=_RIGHTS),
        NO_ANSWER: _UNKNOWN_THEN_RETRY,
        ANY_OTHER: _FAIL,
    },
}

_RETRIED_IF_RETRIABLE = frozenset({ApiKey.FIND_COORDINATOR, ApiKey.OFFSET_FETCH})


def reaction_to(asked: ApiKey, code: int) -> Reaction:
    """The row of a code. Lookups and offset fetches also retry any other code Kafka calls retriable."""
    rows = REACTIONS[asked]
    known = ErrorCode(code) if code in ErrorCode._value2member_map_ else None
    if known is None:
        return rows[ANY_OTHER]  # a newer broker knows more of them
    if known not in rows and asked in _RETRIED_IF_RETRIABLE and known.retriable:
        return _RETRY
    return rows.get(known, rows[ANY_OTHER])


def reaction_to_silence(asked: ApiKey) -> Reaction:
    """The row of a request that gets no answer."""
    return REACTIONS[asked][NO_ANSWER]
