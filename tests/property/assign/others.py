"""The same things as other clients have them: untyped, and kafka-python warns when it is imported."""

import warnings
from importlib import import_module
from typing import Any


def _from(module: str, name: str) -> Any:  # noqa: ANN401  # what other libraries have is not typed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return getattr(import_module(module), name)


_PYTHON, _AIO = "kafka.coordinator.assignors", "aiokafka.coordinator.assignors"

PythonRange = _from(f"{_PYTHON}.range", "RangePartitionAssignor")
PythonRoundRobin = _from(f"{_PYTHON}.roundrobin", "RoundRobinPartitionAssignor")
PythonSticky = _from(f"{_PYTHON}.sticky.sticky_assignor", "StickyPartitionAssignor")
PythonCooperative = _from(f"{_PYTHON}.cooperative_sticky", "CooperativeStickyAssignor")
PythonSubscription = _from("kafka.protocol.consumer.metadata", "ConsumerProtocolSubscription")
PythonAssignment = _from("kafka.protocol.consumer.metadata", "ConsumerProtocolAssignment")
PythonStickyUserData = _from(f"{_PYTHON}.sticky.user_data", "StickyAssignorUserData")

AioRange = _from(f"{_AIO}.range", "RangePartitionAssignor")
AioRoundRobin = _from(f"{_AIO}.roundrobin", "RoundRobinPartitionAssignor")
AioSticky = _from(f"{_AIO}.sticky.sticky_assignor", "StickyPartitionAssignor")
AioSubscription = _from("aiokafka.coordinator.protocol", "ConsumerProtocolMemberMetadata")
AioAssignment = _from("aiokafka.coordinator.protocol", "ConsumerProtocolMemberAssignment")
AioStickyUserData = _from(f"{_AIO}.sticky.sticky_assignor", "StickyAssignorUserDataV1")
