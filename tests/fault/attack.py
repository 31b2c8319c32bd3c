"""A peer that sends the largest legal requests of all APIs, and the Produce requests that cost the most."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.broker.raw import Raw
from tests.fault.heavy import heavy_produces
from tests.fault.largest import largest, newest_and_oldest

from kohort.broker.handlers import SERVED
from kohort.codec.schema import Message
from kohort.model.errors import ErrorCode
from kohort.wire.apis import ApiKey

IN_GROUPS = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)
PRODUCE_VERSION = 12
MEMBER_ID_SINCE = 4  # a JoinGroup without a member id is refused from this version on
REFUSED = (
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,  # one name again and again
    ErrorCode.GROUP_MAX_SIZE_REACHED,  # other members have all the room there is
)


class Attack(NamedTuple):
    """What one peer sends: requests of all APIs with their versions."""

    versions: tuple[tuple[ApiKey, int], ...]
    most: int | None  # elements of an array; None: as many as are legal

    def run(self, bootstrap: str, topic_id: bytes, name: str) -> int:
        """Send everything; how many requests were answered."""
        answered = 0
        with Raw(bootstrap, name) as raw:
            for version, request in self._requests(topic_id):
                raw.send(request, version)
                answered += 1
            for version, join in self._of(ApiKey.JOIN_GROUP, topic_id):
                self._join(raw, f"{name}-{answered}", join, version, topic_id)
                answered += 1
        return answered

    def _requests(self, topic_id: bytes) -> Iterator[tuple[int, Message]]:
        for key, _ in self.versions:
            if key not in IN_GROUPS:
                yield from self._of(key, topic_id)
        for request in heavy_produces("t"):
            yield PRODUCE_VERSION, request

    def _of(self, key: ApiKey, topic_id: bytes) -> Iterator[tuple[int, Any]]:
        for version in (version for each, version in self.versions if each is key):
            for _, request in largest(key, version, topic_id, self.most):
                yield version, request

    def _join(self, raw: Raw, group: str, join: Any, version: int, topic_id: bytes) -> None:  # noqa: ANN401 - a JoinGroupRequest
        """Become the leader of a group of its own, and give out assignments of every size."""
        join.group_id, join.member_id, join.group_instance_id = group, "", None
        joined = raw.send(join, version)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            assert version >= MEMBER_ID_SINCE
            join.member_id = joined.member_id
            joined = raw.send(join, version)
        if joined.error_code in REFUSED:
            return
        assert joined.error_code == 0, joined
        for sync_version, sync in self._of(ApiKey.SYNC_GROUP, topic_id):
            sync.group_id, sync.member_id, sync.group_instance_id = group, joined.member_id, None
            sync.generation_id = joined.generation_id
            sync.protocol_type, sync.protocol_name = join.protocol_type, joined.protocol_name
            assert raw.send(sync, sync_version).error_code == 0


EVERYTHING = Attack(tuple(newest_and_oldest()), None)
NEWEST = Attack(tuple((api.key, api.newest) for api in SERVED), 1_000)
