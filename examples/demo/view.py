"""The group as any client can see it, and how it is shown: a picture on a terminal, lines elsewhere."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from examples.demo.company import Company

import kohort
from kohort.client.admin.topics import OffsetSpec
from kohort.client.errors import BrokerError
from kohort.model.ids import GroupId, Partition, TopicName
from kohort.model.topics import TopicPartition

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

_BAR = 20  # characters of the longest bar
_STABLE = {"Stable": "bold green", "Empty": "dim"}


class SharedPartition(NamedTuple):
    """One partition: whose it is, what is committed, where it ends."""

    number: int
    owner: str | None
    committed: int
    end: int

    @property
    def lag(self) -> int:
        return self.end - self.committed


@dataclass(frozen=True, slots=True)
class GroupView:
    """The group at one moment."""

    state: str
    members: tuple[str, ...]
    partitions: tuple[SharedPartition, ...]
    type: str = "classic"

    @property
    def lag(self) -> int:
        return sum(one.lag for one in self.partitions)

    @property
    def owners(self) -> dict[str, list[int]]:
        """The partitions of each member that is in the group, by its name."""
        return {
            name: [one.number for one in self.partitions if one.owner == name]
            for name in sorted(self.members)
        }

    def is_shared_by(self, *names: str) -> bool:
        """Whether these, and no other members, have all the partitions between them, each some."""
        return (
            self.state == "Stable"
            and set(self.members) == set(names)
            and all(self.owners.values())
            and all(one.owner for one in self.partitions)
        )


async def look(admin: kohort.AsyncAdmin, group: str, topic: str, partitions: int) -> GroupView:
    """Ask the broker, as ``kohort groups describe`` does. A member is called by its client id."""
    places = [TopicPartition(TopicName(topic), Partition(number)) for number in range(partitions)]
    described = (await admin.describe_groups([group]))[GroupId(group)]
    there = None if isinstance(described, BrokerError) else described
    members = () if there is None else there.members
    committed = await admin.list_group_offsets(group, places)
    ends = await admin.list_offsets(dict.fromkeys(places, OffsetSpec.LATEST))
    owners = {where: member.client_id for member in members for where in member.assignment}
    views = []
    for where in places:
        end = ends[where]
        known = committed.get(where)
        views.append(
            SharedPartition(
                where.partition,
                owners.get(where),
                max(0, known.offset) if known is not None else 0,
                0 if isinstance(end, BrokerError) else end.offset,
            )
        )
    state = "Empty" if there is None or there.state == "Dead" else there.state
    kind = "classic" if there is None else there.type
    return GroupView(state, tuple(one.client_id for one in members), tuple(views), kind)


def line(view: GroupView) -> str:
    """The group in one line."""
    shares = [f"{name} {_numbers(numbers)}" for name, numbers in view.owners.items()]
    return f"{view.state}: {', '.join(shares) or 'no members'}; lag {view.lag:,}"


def _numbers(numbers: Iterable[int]) -> str:
    return " ".join(map(str, numbers)) or "-"


def draw(view: GroupView, company: Company, written: int) -> "RenderableType":
    """Members and what they have; partitions and how far they are behind."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    group = company.place.group
    state = Text(view.state, _STABLE.get(view.state, "bold yellow"))
    head = Text.assemble(
        ("group ", "dim"), (group, "bold"), (f" {view.type}  ", "dim"), state,
        ("   orders written ", "dim"), f"{written:,}", ("   lag ", "dim"), f"{view.lag:,}",
    )  # fmt: skip
    colours = {name: member.colour for name, member in company.members.items()}
    tables = _member_table(view, company, colours), _partition_table(view, colours)
    body = Group(head, Text(), tables[0], Text(), tables[1])
    return Padding(body, (1, 0, 0, 2))


def _member_table(view: GroupView, company: Company, colours: Mapping[str, str]) -> "Table":
    from rich.text import Text

    table = _table(("member", "library", "partitions"), ("processed",))
    table.columns[2].min_width = 12
    for name, member in company.members.items():
        is_in = name in view.members
        if not is_in and not company.ledger.processed[name]:
            continue
        has = Text(_numbers(view.owners[name]), colours[name]) if is_in else Text("gone", "dim")
        library = Text(member.library, "" if is_in else "dim")
        table.add_row(
            Text(name, colours[name] if is_in else "dim"), library, has,
            Text(f"{company.ledger.processed[name]:,}", "" if is_in else "dim"),
        )  # fmt: skip
    return table


def _partition_table(view: GroupView, colours: Mapping[str, str]) -> "Table":
    from rich.text import Text

    table = _table(("partition", "owner"), ("committed", "end", "lag"))
    table.add_column("", min_width=_BAR)
    most = max(_BAR, *(one.lag for one in view.partitions))
    for one in view.partitions:
        owner = Text(one.owner, colours.get(one.owner, "")) if one.owner else Text("no owner", "bold red")
        bar = Text("█" * round(_BAR * one.lag / most), colours.get(one.owner or "", "red"))
        table.add_row(str(one.number), owner, f"{one.committed:,}", f"{one.end:,}", f"{one.lag:,}", bar)
    return table


def _table(words: Iterable[str], numbers: Iterable[str]) -> "Table":
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, header_style="dim", pad_edge=False, show_edge=False)
    for name in words:
        table.add_column(name, min_width=9)
    for name in numbers:
        table.add_column(name, justify="right", min_width=6)
    return table
