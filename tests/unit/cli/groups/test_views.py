"""What is shown of groups."""

import json
from dataclasses import replace

from kohort.cli.groups import views
from kohort.cli.groups.lookup import Listed, PartitionLag
from kohort.cli.screen import plain_lines
from kohort.client.admin.results import CommittedOffset, GroupInfo, ListedGroup, MemberInfo
from kohort.client.metadata import Node
from kohort.model.ids import GroupId, LeaderEpoch, NodeId, Offset, Partition, TopicName
from kohort.model.topics import TopicPartition

MEMBER_ID = "app-00000000-0000-4000-8000-0000000000aa"


def tp(number: int) -> TopicPartition:
    return TopicPartition(TopicName("t"), Partition(number))


def member(*partitions: int, target: tuple[int, ...] | None = None, member_id: str = MEMBER_ID) -> MemberInfo:
    return MemberInfo(
        member_id=member_id,
        instance_id=None,
        client_id="app",
        client_host="/10.0.0.1",
        assignment=tuple(map(tp, partitions)),
        target=None if target is None else tuple(map(tp, target)),
    )


def group(*members: MemberInfo, state: str = "Stable") -> GroupInfo:
    return GroupInfo(
        group_id=GroupId("g"),
        type="classic",
        state=state,
        protocol_type="consumer",
        assignor="range",
        coordinator=Node(NodeId(1), "host", 9092),
        members=members,
    )


ONE = member(0)
LAGS = [
    PartitionLag(tp(0), CommittedOffset(Offset(7), LeaderEpoch(2), "meta"), 0, 10, ONE),
    PartitionLag(tp(1), None, 0, 5, None),
    PartitionLag(tp(2), CommittedOffset(Offset(3)), None, None, None),
]


def test_the_lag_is_what_is_between_the_commit_and_the_end() -> None:
    assert [one.lag for one in LAGS] == [3, None, None]


def test_a_description_has_the_columns_people_know() -> None:
    idle = member(member_id="idle")
    assert list(plain_lines(views.lag_table([(group(ONE, idle), LAGS)], columns=None))) == [
        "GROUP  TOPIC  PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  "
        "CONSUMER-ID                               HOST      CLIENT-ID",
        f"g      t              0               7              10    3  {MEMBER_ID}  10.0.0.1  app",
        "g      t              1               -               5    -  "
        "-                                         -         -",
        "g      t              2               3               -    -  "
        "-                                         -         -",
        "g      -              -               -               -    -  "
        "idle                                      10.0.0.1  app",
    ]


def test_where_there_is_no_room_member_ids_are_short() -> None:
    wide = views.lag_table([(group(ONE), LAGS)], columns=200)
    narrow = views.lag_table([(group(ONE), LAGS)], columns=100)
    assert wide.rows[0][6] == MEMBER_ID
    assert narrow.rows[0][6] == "app-…00aa"


def test_a_description_has_stable_keys() -> None:
    found = json.loads(json.dumps(views.lag_json(group(ONE, member(member_id="idle")), LAGS)))
    assert found["partitions"][0] == {
        "topic": "t",
        "partition": 0,
        "current_offset": 7,
        "log_end_offset": 10,
        "lag": 3,
        "member_id": MEMBER_ID,
        "host": "10.0.0.1",
        "client_id": "app",
    }
    assert found["partitions"][1] == dict.fromkeys(found["partitions"][0]) | {
        "topic": "t",
        "partition": 1,
        "log_end_offset": 5,
    }
    assert found["members_without_partitions"] == [
        {"member_id": "idle", "host": "10.0.0.1", "client_id": "app"}
    ]


def test_offsets_are_shown_where_something_is_committed() -> None:
    assert list(plain_lines(views.offsets_table(LAGS))) == [
        "TOPIC  PARTITION  CURRENT-OFFSET  LEADER-EPOCH  LOG-START-OFFSET  LOG-END-OFFSET  LAG  METADATA",
        "t              0               7             2                 0              10    3  meta",
        "t              2               3             -                 -               -    -  -",
    ]
    found = json.loads(json.dumps(views.offsets_json(group(ONE), LAGS)))
    assert found["offsets"][0] == {
        "topic": "t",
        "partition": 0,
        "current_offset": 7,
        "leader_epoch": 2,
        "log_start_offset": 0,
        "log_end_offset": 10,
        "lag": 3,
        "metadata": "meta",
    }
    assert found["offsets"][1]["leader_epoch"] is None


def test_members_show_what_they_have_when_asked() -> None:
    assert list(plain_lines(views.members_table(group(ONE), verbose=False))) == [
        "CONSUMER-ID                               INSTANCE  HOST      CLIENT-ID  #PARTITIONS",
        f"{MEMBER_ID}  -         10.0.0.1  app                  1",
    ]
    table = views.members_table(group(member(0, 1, 3), member()), verbose=True)
    assert [row[-1] for row in table.rows] == ["t 0-1, 3", "-"]


def test_a_member_on_its_way_shows_where_to() -> None:
    there, going, leaving = (
        member(0, target=(0,)),
        member(0, target=(0, 1)),
        member(0, target=()),
    )
    coming = member(target=(1,))
    table = views.members_table(group(there, going, leaving, coming), verbose=True)
    assert [row[-1] for row in table.rows] == ["t 0", "t 0 → t 0-1", "t 0 → none", "none → t 1"]
    found = json.loads(json.dumps(views.members_json(group(going))))
    assert found["members"][0]["target"] == [
        {"topic": "t", "partition": 0},
        {"topic": "t", "partition": 1},
    ]
    assert json.loads(json.dumps(views.members_json(group(ONE))))["members"][0]["target"] is None


def test_the_state_is_one_row() -> None:
    assert list(plain_lines(views.state_table(group(ONE)))) == [
        "GROUP  COORDINATOR (ID)  ASSIGNMENT-STRATEGY  STATE   #MEMBERS",
        "g      host:9092 (1)     range                Stable         1",
    ]
    assert views.state_json(group(ONE)) == {
        "group": "g",
        "type": "classic",
        "protocol_type": "consumer",
        "coordinator": {"node_id": 1, "host": "host", "port": 9092},
        "assignor": "range",
        "state": "Stable",
        "epoch": None,
        "target_epoch": None,
        "members": 1,
    }


def test_a_listing_shows_what_old_brokers_do_not_tell_as_unknown() -> None:
    known = Listed(ListedGroup(GroupId("a"), "consumer", "Stable", "classic", NodeId(1)), 2, 40)
    old = Listed(ListedGroup(GroupId("b"), "", "", "", NodeId(1)), None, None)
    assert list(plain_lines(views.list_table([known, old]))) == [
        "GROUP  STATE   PROTOCOL TYPE  TYPE     MEMBERS  LAG",
        "a      Stable  consumer       classic        2   40",
        "b      -       -              -              -    -",
    ]
    assert views.list_json([old]) == [
        {"group": "b", "state": None, "protocol_type": "", "type": None, "members": None, "lag": None}
    ]


def test_a_consumer_group_shows_epochs_and_how_far_each_member_is() -> None:
    stable = replace(member(0, target=(0,)), epoch=4, protocol="consumer")
    waits = replace(member(1, target=(1, 2)), epoch=4, protocol="consumer")
    behind = replace(member(2, target=()), epoch=3)
    away = replace(member(3, target=(3,)), epoch=-2, protocol="consumer")
    found = replace(group(stable, waits, behind, away), type="consumer", epoch=5, target_epoch=4)
    table = views.members_table(found, verbose=False)
    assert [row[-3:] for row in table.rows] == [
        ["4", "consumer", "stable"],
        ["4", "consumer", "waits for 1"],
        ["3", "classic", "behind"],
        ["-2", "consumer", "away"],
    ]
    assert list(plain_lines(views.state_table(found))) == [
        "GROUP  COORDINATOR (ID)  ASSIGNMENT-STRATEGY  STATE   #MEMBERS  EPOCH  TARGET-EPOCH",
        "g      host:9092 (1)     range                Stable         4      5             4",
    ]
