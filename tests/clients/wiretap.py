"""What the coordinator told the members of a group, read from its replies inside the broker."""

import struct
from collections import defaultdict
from collections.abc import Awaitable

from tests.clients.libraries import ReadPartition, Untyped

from kohort.broker.context import Response, Result
from kohort.testing.broker import Broker
from kohort.testing.intercept import Proceed, Seen


class Wiretap:
    """Follows the generations of one group and what each member was assigned in them."""

    def __init__(self, broker: Broker, group: str) -> None:
        self.joins: list[Seen] = []
        self.leaves: list[Seen] = []
        self._assignments: defaultdict[int, dict[str, set[ReadPartition]]] = defaultdict(dict)
        broker.intercept(self._on_sync, api="SyncGroup", group=group)
        broker.intercept(self._on_join, api="JoinGroup", group=group)
        broker.intercept(self._on_leave, api="LeaveGroup", group=group)

    @property
    def generation(self) -> int:
        """The newest generation anybody has an assignment of."""
        return max(self._assignments, default=0)

    @property
    def generations(self) -> list[int]:
        return sorted(self._assignments)

    def shares(self, generation: int) -> list[set[ReadPartition]]:
        """What each member was assigned in a generation."""
        return list(self._assignments[generation].values())

    def check(self) -> None:
        """No partition was assigned to two members in one generation."""
        for generation, shares in self._assignments.items():
            places = [place for share in shares.values() for place in share]
            assert len(places) == len(set(places)), f"generation {generation}: {dict(shares)}"

    def _on_join(self, seen: Seen, proceed: Proceed) -> Result:
        self.joins.append(seen)
        return proceed()

    def _on_leave(self, seen: Seen, proceed: Proceed) -> Result:
        self.leaves.append(seen)
        return proceed()

    def _on_sync(self, seen: Seen, proceed: Proceed) -> Result:
        result = proceed()
        if not isinstance(result, Awaitable):
            self._note(seen.request, result)
            return result

        async def wait(result: Awaitable[Response]) -> Response:
            response = await result
            self._note(seen.request, response)
            return response

        return wait(result)

    def _note(self, request: Untyped, response: Untyped) -> None:
        if response.error_code == 0:
            shares = self._assignments[request.generation_id]
            shares[request.member_id] = places_in(response.assignment)


def places_in(assignment: bytes) -> set[ReadPartition]:
    """The partitions of an assignment as all consumers encode it; empty bytes assign nothing."""
    if not assignment:
        return set()
    places: set[ReadPartition] = set()
    _, topics = struct.unpack_from(">hi", assignment)
    position = 6
    for _ in range(topics):
        (length,) = struct.unpack_from(">h", assignment, position)
        topic = assignment[position + 2 : position + 2 + length].decode()
        position += 2 + length
        (count,) = struct.unpack_from(">i", assignment, position)
        numbers = struct.unpack_from(f">{count}i", assignment, position + 4)
        position += 4 + 4 * count
        places |= {ReadPartition(topic, number) for number in numbers}
    return places
