"""What a member of the consumer protocol asks about committed offsets: as whom, in which epoch."""

from tests.unit.client.membership.consumer_stage import INTERVAL, Beat, Member

from kohort.client.errors import BrokerError
from kohort.model.errors import ErrorCode
from kohort.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)


class FetchingMember(Member):
    """A member that asks what its group has committed."""

    def refuse(self, code: int) -> None:
        group = OffsetFetchResponseGroup(group_id="g", error_code=code)
        self.answer(OffsetFetchRequest, OffsetFetchResponse(groups=[group]))

    @property
    def identities(self) -> list[tuple[str | None, int]]:
        """The member id and the epoch of each question."""
        groups = [each.groups[0] for each in self.requests(OffsetFetchRequest)]
        return [(each.member_id, each.member_epoch) for each in groups]


def test_a_member_asks_for_offsets_with_its_epoch_and_again_with_a_newer_one() -> None:
    member = FetchingMember()
    member.fetch_committed("t-0")
    member.poll()
    member.find()
    assert member.identities == [(None, -1)], "it has no epoch yet"
    member.refuse(ErrorCode.NONE)
    member.metadata(t=1)
    member.reply("t-0", epoch=3)
    asked = member.fetch_committed("t-0")
    assert member.identities[1:] == [("m", 3)]
    member.refuse(ErrorCode.STALE_MEMBER_EPOCH)
    member.poll()
    member.reply(epoch=4)
    member.sleep(100)
    assert member.identities[2:] == [("m", 4)]
    member.refuse(ErrorCode.NONE)
    found = member.fetched(asked)
    assert found is not None
    assert found.error is None


def test_a_member_that_its_group_does_not_know_gets_no_offsets() -> None:
    member = FetchingMember()
    member.joined("t-0")
    asked = member.fetch_committed("t-0")
    member.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
    found = member.fetched(asked)
    assert found is not None
    assert isinstance(found.error, BrokerError)
    assert not found.error.retriable


def test_a_member_that_its_group_does_not_know_asks_at_once_and_joins_again() -> None:
    member = FetchingMember()
    member.joined("t-0")
    beats = len(member.requests(Beat))
    member.fetch_committed("t-0")
    member.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
    assert len(member.requests(Beat)) == beats + 1
    member.reply(code=ErrorCode.UNKNOWN_MEMBER_ID)
    member.poll()
    assert member.callbacks[-1] == "lost(t-0)"
    assert member.last.member_epoch == 0


def test_a_stale_epoch_of_a_member_that_is_out_of_the_group_is_an_error() -> None:
    member = FetchingMember()
    member.joined("t-0")
    asked = member.fetch_committed("t-0")
    member.sleep(INTERVAL)
    member.reply(code=ErrorCode.FENCED_MEMBER_EPOCH)
    member.refuse(ErrorCode.STALE_MEMBER_EPOCH)
    found = member.fetched(asked)
    assert found is not None
    assert isinstance(found.error, BrokerError)
    member.fetch_committed("t-0")
    assert member.identities[-1] == (None, -1)
