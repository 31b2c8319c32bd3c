"""Pictures of a lake: rows in, a description of a chart (Vega-Lite) out. Pure; ``report`` draws them."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

Row = Mapping[str, Any]
Chart = dict[str, Any]

_SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v5.json"  # a name, not an address that is opened
_UTC: Final = {"type": "utc"}
_HOURS: Final = "utcFormat(datum.value, {hours: '%H:%M', minutes: '%H:%M'})"  # else 15:20 is 03:20
_TIME: Final = {"type": "temporal", "scale": _UTC, "title": None, "axis": {"labelExpr": _HOURS}}
_ROW_HEIGHT: Final = 22
_MOST_ROWS: Final = 40
_LABELS: Final = 24  # as many numbers as fit side by side
_GREY: Final = "#8c959f"
COMMIT_MINUTES: Final = 10
_OF_GROUP: Final = "slice(datum.label, indexof(datum.label, ' / ') + 3)"  # colours tell groups apart


class Theme(NamedTuple):
    """Colours of text, lines and background."""

    name: str
    text: str
    line: str
    background: str


LIGHT: Final = Theme("light", "#1f2328", "#d0d7de", "#ffffff")
DARK: Final = Theme("dark", "#e6edf3", "#3d444d", "#0d1117")


def timeline(rebalances: Sequence[Row]) -> Chart:
    """The generations of each group, when it rebalanced between them, how long that took, and why.

    A rebalance is a mark in the colour of its cause, as wide as it took; a generation is a line with its
    number, if there is room for it.
    """
    time: Chart = dict(_TIME)
    cause: Chart = {"field": "trigger", "type": "nominal", "title": "cause"}
    return {
        "encoding": {"y": {"field": "group_id", "type": "nominal", "title": None}},
        "layer": [
            {
                "data": {"values": generations(rebalances)},
                "mark": {"type": "bar", "height": 3, "color": _GREY},
                "encoding": {"x": time | {"field": "start"}, "x2": {"field": "end"}},
            },
            {
                "data": {"values": list(rebalances)},
                "mark": {"type": "bar", "height": 8},
                "encoding": {"x": time | {"field": "start"}, "x2": {"field": "end"}, "color": cause},
            },
            {
                "data": {"values": list(rebalances)},
                "mark": {"type": "tick", "thickness": 2, "height": 16},
                "encoding": {"x": time | {"field": "start"}, "color": cause},
            },
            {
                "data": {"values": [one for one in generations(rebalances) if one["has_room"]]},
                "mark": {"type": "text", "align": "left", "dx": 4, "dy": -6, "fontSize": 9, "color": _GREY},
                "encoding": {"x": time | {"field": "start"}, "text": {"field": "generation"}},
            },
        ],
        "height": {"step": _ROW_HEIGHT + 6},
    }


def generations(rebalances: Sequence[Row]) -> list[Row]:
    """From when to when each group had each generation; ``has_room``: its number does not cover the next."""
    if not rebalances:
        return []
    begin = min(_moment(one["start"]) for one in rebalances)
    until = max(_moment(one["end"]) for one in rebalances)
    by_group: dict[str, list[Row]] = {}
    for one in sorted(rebalances, key=lambda one: _moment(one["start"])):
        if one["gen_to"] is not None:
            by_group.setdefault(one["group_id"], []).append(one)
    made: list[Row] = []
    for group, those in by_group.items():
        for number, one in enumerate(those):
            end = _moment(those[number + 1]["start"]) if number + 1 < len(those) else until
            span = end - _moment(one["end"])
            made.append(
                {
                    "group_id": group,
                    "generation": one["gen_to"],
                    "start": one["end"],
                    "end": end.isoformat(),
                    "has_room": span * _LABELS >= until - begin,
                }
            )
    return made


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def phases(rebalances: Sequence[Row]) -> Chart:
    """How long members were waited for, and then the assignment, in each of the newest forty rebalances."""
    newest = sorted(rebalances, key=lambda one: _moment(one["start"]))[-_MOST_ROWS:]
    return {
        "data": {
            "values": [
                {
                    "rebalance": f"{one['gen_to']} {one['group_id']}",
                    "start": one["start"],
                    "phase": phase,
                    "seconds": one[column] / 1_000,
                }
                for one in newest
                for phase, column in (("join", "join_ms"), ("sync", "sync_ms"))
                if one[column] is not None
            ]
        },
        "mark": {"type": "bar", "height": 10},
        "encoding": {
            "y": {
                "field": "rebalance",
                "type": "nominal",
                "title": None,
                "sort": {"field": "start", "op": "min"},
            },
            "x": {"field": "seconds", "type": "quantitative", "title": "seconds, by generation"},
            "color": {"field": "phase", "type": "nominal", "title": "phase"},
        },
        "height": {"step": _ROW_HEIGHT},
    }


def lag(samples: Sequence[Row]) -> Chart:
    """The lag of each group over time, all its partitions together."""
    return {
        "data": {"values": list(samples)},
        "mark": {"type": "line", "interpolate": "step-after"},
        "encoding": {
            "x": _TIME | {"field": "at"},
            "y": {"field": "lag", "type": "quantitative", "title": "records"},
            "color": {"field": "group_id", "type": "nominal", "title": "group"},
        },
        "height": 200,
    }


def lost_time(causes: Sequence[Row]) -> Chart:
    """Seconds that partitions had no owner, by the cause of the rebalance."""
    return {
        "data": {"values": list(causes)},
        "mark": "bar",
        "encoding": {
            "y": {"field": "trigger", "type": "nominal", "sort": "-x", "title": None},
            "x": {"field": "seconds", "type": "quantitative", "title": "partition-seconds without an owner"},
        },
        "height": {"step": _ROW_HEIGHT},
    }


def members(sessions: Sequence[Row]) -> Chart:
    """From when to when each member was in its group; at most forty sessions, the newest.

    Members of one name that were there at the same time have lines of their own: "worker", "worker (2)".
    """
    newest = sorted(sessions, key=lambda one: one["joined"])[-_MOST_ROWS:]
    return {
        "data": {"values": list(_side_by_side(newest))},
        "mark": {"type": "bar", "height": 10},
        "encoding": {
            "y": {
                "field": "member",
                "type": "nominal",
                "title": None,
                "axis": {"labelExpr": _OF_GROUP},
                "sort": {"field": "joined", "op": "min"},
            },
            "x": _TIME | {"field": "joined"},
            "x2": {"field": "left"},
            "color": {"field": "group_id", "type": "nominal", "title": "group"},
        },
        "height": {"step": _ROW_HEIGHT},
    }


def _side_by_side(sessions: Sequence[Row]) -> Iterator[Row]:
    """The sessions with a number in the name of each that begins before the one of that name has ended."""
    ends: dict[tuple[str, int], str] = {}
    for one in sessions:
        number = 1
        while ends.get((one["member"], number), "") > one["joined"]:
            number += 1
        ends[one["member"], number] = one["left"]
        yield one if number == 1 else {**one, "member": f"{one['member']} ({number})"}


def commits(counts: Sequence[Row]) -> Chart:
    """How many offsets each group committed, in each ten minutes."""
    windows = [
        {**one, "until": (_moment(one["at"]) + timedelta(minutes=COMMIT_MINUTES)).isoformat()}
        for one in counts
    ]
    return {
        "data": {"values": windows},
        "mark": "rect",
        "encoding": {
            "x": _TIME | {"field": "at"},
            "x2": {"field": "until"},
            "y": {"field": "group_id", "type": "nominal", "title": None},
            "color": {
                "field": "commits",
                "type": "quantitative",
                "scale": {"scheme": "blues"},
                "title": "commits",
            },
        },
        "height": {"step": _ROW_HEIGHT},
    }


def tried_settings(outcomes: Sequence[Row]) -> Chart:
    """Partition-seconds without an owner under each settings that were tried, with their spread."""
    y: Chart = {"field": "settings", "type": "nominal", "sort": None, "title": None}
    return {
        "data": {"values": list(outcomes)},
        "encoding": {"y": y},
        "layer": [
            {
                "mark": {"type": "bar", "height": 12},
                "encoding": {
                    "x": {
                        "field": "seconds",
                        "type": "quantitative",
                        "title": "partition-seconds without an owner",
                    }
                },
            },
            {
                "mark": {"type": "rule", "strokeWidth": 2, "color": "#888888"},
                "encoding": {"x": {"field": "least", "type": "quantitative"}, "x2": {"field": "most"}},
            },
        ],
        "height": {"step": _ROW_HEIGHT},
    }


def tried_rebalances(starts: Sequence[Row]) -> Chart:
    """When rebalances began in a run of each settings."""
    return {
        "data": {"values": list(starts)},
        "mark": {"type": "tick", "thickness": 2, "height": 14},
        "encoding": {
            "y": {"field": "settings", "type": "nominal", "sort": None, "title": None},
            "x": {"field": "hours", "type": "quantitative", "title": "hours from the start"},
        },
        "height": {"step": _ROW_HEIGHT},
    }


def dressed(chart: Chart, theme: Theme, width: int) -> Chart:
    """The chart in a theme and a width; in a narrow one the legend is below."""
    is_narrow = width < 500
    axis = {
        "labelColor": theme.text,
        "titleColor": theme.text,
        "gridColor": theme.line,
        "domainColor": theme.line,
        "tickColor": theme.line,
        "labelLimit": 110 if is_narrow else 260,
        "labelOverlap": "greedy",
        "labelSeparation": 6,
    }
    legend = {"labelColor": theme.text, "titleColor": theme.text, "labelLimit": 180}
    if is_narrow:
        legend |= {"orient": "bottom", "columns": 2}
    return chart | {
        "$schema": _SCHEMA,
        "width": width,
        # A browser may have wider letters than those the labels were measured with.
        "padding": {"left": 16, "right": 8, "top": 6, "bottom": 6},
        "autosize": {"type": "fit-x", "contains": "padding"},
        "config": {
            "background": theme.background,
            "font": "system-ui, sans-serif",
            "view": {"stroke": theme.line},
            "axis": axis,
            "axisTemporal": {"tickCount": 4 if is_narrow else 10},
            "axisYQuantitative": {"titlePadding": 14},
            "axisXQuantitative": {"tickCount": 5 if is_narrow else 10},
            "legend": legend,
        },
    }
