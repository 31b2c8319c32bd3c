"""The checks every API makes before it touches a partition: does it exist, and do the epochs agree?"""

from typing import TYPE_CHECKING

from kohort.log.log import Log
from kohort.model.errors import ErrorCode, RefusedError

if TYPE_CHECKING:
    from kohort.broker.broker import Broker

NO_EPOCH = -1


def check_epoch(log: Log, claimed: int) -> None:
    """Refuse a client whose idea of the leader epoch is older or newer than ours; -1 skips the check."""
    if claimed == NO_EPOCH or claimed == log.leader_epoch:
        return
    if claimed < log.leader_epoch:
        raise RefusedError(ErrorCode.FENCED_LEADER_EPOCH)
    raise RefusedError(ErrorCode.UNKNOWN_LEADER_EPOCH)


def led_log(broker: "Broker", topic: str, partition: int, claimed_epoch: int = NO_EPOCH) -> Log:
    """The log of a partition this broker leads, or RefusedError."""
    log = broker.topics.log(topic, partition)
    if log is None:
        raise RefusedError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    check_epoch(log, claimed_epoch)
    return log
