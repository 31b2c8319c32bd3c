"""Pictures of a lake: rows in, a description of a chart (Vega-Lite) out. Pure; ``report`` draws them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

Row = Mapping[str, Any]
Chart = dict[str, Any]

_SCHEMA: Final = "https://vega.github.io/schema/vega-lite/v5.json"  # a name, not an address that is opened
_UTC: Final = {"type": "utc"}
_ROW_HEIGHT: Final = 22
_MOST_ROWS: Final = 40


class Theme(NamedTuple):
    """Colours of text, lines and background."""

    name: str
    text: str
    line: str
    background: str


LIGHT: Final = Theme("light", "#1f2328", "#d0d7de", "#ffffff")
DARK: Final = Theme("dark", "#e6edf3", "#3d444d", "#0d1117")


def timeline(rebalances: Sequence[Row]) -> Chart:
    """When each group rebalanced, how long that took, and why."""
    time: Chart = {"type": "temporal", "scale": _UTC, "title": None}
    return {
        "data": {"values": list(rebalances)},
        "encoding": {
            "y": {"field": "group_id", "type": "nominal", "title": None},
            "color": {"field": "trigger", "type": "nominal", "title": "cause"},
        },
        "layer": [
            {
                "mark": {"type": "bar", "height": 8},
                "encoding": {"x": time | {"field": "start"}, "x2": {"field": "end"}},
            },
            {
                "mark": {"type": "tick", "thickness": 2, "height": 16},
                "encoding": {"x": time | {"field": "start"}},
            },
        ],
        "height": {"step": _ROW_HEIGHT},
    }


def lag(samples: Sequence[Row]) -> Chart:
    """The lag of each group over time, all its partitions together."""
    return {
        "data": {"values": list(samples)},
        "mark": {"type": "line", "interpolate": "step-after"},
        "encoding": {
            "x": {"field": "at", "type": "temporal", "scale": _UTC, "title": None},
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
    """From when to when each member was in its group; at most forty, the newest."""
    return {
        "data": {"values": list(sessions)[-_MOST_ROWS:]},
        "mark": {"type": "bar", "height": 10},
        "encoding": {
            "y": {
                "field": "member",
                "type": "nominal",
                "title": None,
                "sort": {"field": "joined", "op": "min"},
            },
            "x": {"field": "joined", "type": "temporal", "scale": _UTC, "title": None},
            "x2": {"field": "left"},
            "color": {"field": "group_id", "type": "nominal", "title": "group"},
        },
        "height": {"step": _ROW_HEIGHT},
    }


def commits(counts: Sequence[Row]) -> Chart:
    """How many offsets each group committed, by stretches of time."""
    return {
        "data": {"values": list(counts)},
        "mark": "rect",
        "encoding": {
            "x": {
                "field": "at",
                "type": "ordinal",
                "timeUnit": "utcyearmonthdatehoursminutes",
                "title": None,
            },
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
            "legend": legend,
        },
    }
