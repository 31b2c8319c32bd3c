"""The report: a page that needs nothing but itself, with its pictures and its words."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest

from kohort.lake.pictures import commits, generations, lag, members, phases
from kohort.lake.report import page, picture, summary, table

T = "2026-01-01T00:0{}:00+00:00"


def rows() -> dict[str, list[dict[str, Any]]]:
    return {
        "groups": [
            {"group_id": "<b>&billing", "snapshots": 2, "state": "Stable", "members": 1, "generation": 2}
        ],
        "rebalances": [
            {
                "group_id": "<b>&billing",
                "trigger": "SessionExpired",
                "cause": "session of <script>alert(1)</script> expired",
                "inferred": True,
                "start": T.format(number),
                "end": T.format(number + 1),
                "gen_to": number,
                "members_before": 2,
                "members_after": 1,
                "partitions_moved": 3,
                "partitions_idle_ms": 4_000,
                "join_ms": 3_000,
                "sync_ms": None if number else 500,
            }
            for number in range(4)
        ],
        "lost": [{"trigger": "SessionExpired", "rebalances": 4, "seconds": 16.0}],
        "lag": [{"at": T.format(number), "group_id": "<b>&billing", "lag": number} for number in range(5)],
        "status": [
            {
                "group_id": "<b>&billing",
                "topic": "t",
                "partition": 0,
                "status": "STALLED",
                "rule": 7,
                "since": T.format(1),
                "lag": 1_234,
            }
        ],
        "members": [
            {
                "group_id": "<b>&billing",
                "member": "billing / c",
                "joined": T.format(0),
                "left": T.format(4),
                "reason": None,
                "rebalances": 4,
            }
        ],
        "commits": [{"group_id": "<b>&billing", "at": T.format(0), "commits": 9}],
        "expiry": [
            {
                "group_id": "<b>&billing",
                "topic": "t",
                "partitions": 2,
                "first": T.format(5),
                "last": T.format(6),
                "rule": 4,
                "counts_from": T.format(0),
                "retention_ms": 300_000,
            }
        ],
        "findings": [],
    }


class Reader(HTMLParser):
    """Ids of figures, the pictures in them, and what a browser would run or fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.pictures: dict[str, int] = {}
        self.fetched: list[str] = []
        self._figure = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "figure":
            self._figure = given["id"] or ""
            self.pictures[self._figure] = 0
        elif tag == "svg" and self._figure:
            self.pictures[self._figure] += 1
        elif tag in ("script", "img", "iframe"):
            self.fetched.append(tag)
        self.fetched += [
            value
            for name, value in attrs
            if name in ("src", "href") and value and not value.startswith(("data:", "#"))
        ]


@pytest.fixture(scope="module")
def text() -> str:
    return page(rows())


def test_each_picture_is_there_for_two_themes_and_two_widths_and_nothing_is_fetched(text: str) -> None:
    reader = Reader()
    reader.feed(text)
    assert reader.pictures == dict.fromkeys(
        ("timeline", "phases", "lag", "lost-time", "members", "commits"), 4
    )
    assert reader.fetched == []
    assert not re.search(r"url\((?!#)|@import", text)


def test_names_from_a_cluster_are_text_and_never_markup(text: str) -> None:
    assert "<script" not in text
    assert "<b>" not in text
    assert "&lt;b&gt;&amp;billing" in text


def test_the_summary_says_what_matters() -> None:
    words = " ".join(summary(rows()))
    assert "1 group, 4 rebalances" in words
    assert "16 seconds" in words
    assert "SessionExpired" in words
    assert "1,234 records" in words
    assert "inferred" in words
    assert "<b>&billing in t (2 partitions), on 2026-01-01 00:05:00, if nothing changes" in words


def test_a_generation_lasts_from_its_rebalance_to_the_next_and_shows_its_number_if_there_is_room() -> None:
    told = [
        {"group_id": group, "gen_to": generation, "start": T.format(start), "end": T.format(end)}
        for group, generation, start, end in (("a", 1, 0, 1), ("b", 7, 2, 3), ("a", 2, 4, 5), ("a", 3, 5, 9))
    ]
    found = [(one["group_id"], one["generation"], one["start"], one["end"], one["has_room"])
             for one in generations(told[::-1])]  # fmt: skip
    assert sorted(found) == [
        ("a", 1, T.format(1), T.format(4), True),
        ("a", 2, T.format(5), T.format(5), False),
        ("a", 3, T.format(9), T.format(9), False),
        ("b", 7, T.format(3), T.format(9), True),
    ]


def test_phases_are_shown_where_they_are_known() -> None:
    drawn = phases(rows()["rebalances"])["data"]["values"]
    assert [(row["phase"], row["seconds"]) for row in drawn] == [
        ("join", 3.0),
        ("sync", 0.5),
        *[("join", 3.0)] * 3,
    ]


@pytest.mark.parametrize("step", [1, -1])
def test_of_many_sessions_the_newest_are_drawn_in_whatever_order_they_come(step: int) -> None:
    times = [f"2026-01-01T00:{number:02}:00+00:00" for number in range(50)]
    came = [{"member": "worker", "joined": one, "left": one} for one in times]
    drawn = members(came[::step])["data"]["values"]
    assert [row["joined"] for row in drawn] == [row["joined"] for row in came[10:]]


def test_members_of_one_name_have_a_line_each_while_they_are_there_together() -> None:
    stays = (("a", 1, 5), ("a", 2, 3), ("b", 2, 9), ("a", 4, 6), ("a", 6, 7))
    came = [
        {"member": name, "joined": T.format(joined), "left": T.format(left)} for name, joined, left in stays
    ]
    assert [row["member"] for row in members(came)["data"]["values"]] == ["a", "a (2)", "b", "a (2)", "a"]


def test_times_of_the_day_are_written_as_in_the_tables() -> None:
    came = [{"group_id": "g", "lag": 1, "at": f"2026-01-01T{hour}:00:00+00:00"} for hour in (14, 16)]
    drawn = picture("Lag", "lag", lag, came)
    assert "15:00" in drawn
    assert "03:00" not in drawn


def test_a_pause_between_commits_is_a_gap_in_the_picture() -> None:
    chart = commits(rows()["commits"])
    (window,) = chart["data"]["values"]
    assert (window["at"], window["until"]) == (T.format(0), "2026-01-01T00:10:00+00:00")
    assert chart["encoding"]["x"]["type"] == "temporal"


def test_numbers_of_a_table_stand_under_each_other_and_sentences_may_wrap() -> None:
    made = table("Lag", [{"group": "billing", "lag": None}, {"group": "x" * 50, "lag": 7_000}])
    assert '<th>group</th><th class="number">lag</th>' in made
    assert '<td class="number">7,000</td>' in made
    assert f'<td class="long">{"x" * 50}</td>' in made


def test_a_lake_without_rows_has_a_page() -> None:
    assert page({name: [] for name in rows()}).count("<h2>") == 11
