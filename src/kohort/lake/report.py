"""One page about a lake: what there is to know in words, pictures, and the tables behind them.

The page needs nothing but itself: pictures are SVG, drawn here, for light and dark screens and two widths.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kohort.client.columnar.options import MissingExtraError
from kohort.lake import pictures
from kohort.lake.queries import plain
from kohort.lake.store import Lake
from kohort.story.names import counted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[dict[str, Any]]

_WIDE: Final = 1000
_NARROW: Final = 350
_LONG: Final = 40  # letters
_MOST: Final = 2_000  # points of a picture: more would not be seen

_QUESTIONS: Final = {
    "groups": """select group_id, count(distinct src_offset) as snapshots, max_by(state, src_offset) as state,
        max_by(size(members), src_offset) as members, max(generation) as generation
        from group_snapshots group by group_id order by group_id""",
    "rebalances": f"""select group_id, trigger, cause, inferred, start_ts as start,
        coalesce(end_ts, start_ts) as `end`, gen_to, members_before, members_after,
        partitions_moved, partitions_idle_ms, join_ms, sync_ms
        from rebalances order by start_ts desc limit {_MOST}""",
    "lost": """select trigger, count(*) as rebalances, sum(partitions_idle_ms) / 1000 as seconds
        from rebalances group by trigger order by seconds desc nulls last""",
    "lag": f"""select ts as at, group_id, sum(lag) as lag from lag_samples group by ts, group_id
        order by ts desc limit {_MOST}""",
    "status": """select group_id, topic, partition, status, rule, since, lag from
        (select *, row_number() over (partition by group_id, topic, partition order by ts desc) as newest
        from lag_status) where newest = 1 order by lag desc limit 200""",
    "members": f"""select group_id, concat(group_id, ' / ', coalesce(client_id, member_id)) as member, joined,
        coalesce(left, (select max(ts) from records)) as left, reason, rebalances
        from member_sessions order by joined desc limit {_MOST}""",
    "commits": f"""select group_id, window(commit_ts, '{pictures.COMMIT_MINUTES} minutes').start as at,
        count(*) as commits from offset_commits where not tombstone
        group by all order by at desc limit {_MOST}""",
    "expiry": """select group_id, topic, count(*) as partitions, min(expires) as first, max(expires) as last,
        min_by(rule, expires) as rule, min(counts_from) as counts_from, max(retention_ms) as retention_ms
        from offset_expiry where expires is not null group by group_id, topic order by first limit 200""",
    "findings": "select group_id, sentence, finding, rule, since from findings order by since desc limit 200",
}


def report(spark: "SparkSession", root: Path) -> str:
    """The page, as HTML. Raises MissingExtraError without the library that draws."""
    Lake.existing(root).views(spark)
    asked = {
        name: [{key: plain(value) for key, value in row.asDict().items()} for row in spark.sql(sql).collect()]
        for name, sql in _QUESTIONS.items()
    }
    return page(asked)


def page(found: Mapping[str, Rows]) -> str:
    """The page from the answers to its questions."""
    parts = [
        "<h1>Consumer groups</h1>",
        "".join(f"<p>{escape(sentence)}</p>" for sentence in summary(found)),
        table("Findings", found["findings"]),
        picture("Generations and rebalances", "timeline", pictures.timeline, found["rebalances"]),
        picture(
            "Phases of rebalances", "phases", pictures.phases,
            [row for row in found["rebalances"] if row["join_ms"] is not None or row["sync_ms"] is not None],
        ),
        picture("Lag", "lag", pictures.lag, found["lag"]),
        picture(
            "Time without an owner, by cause", "lost-time", pictures.lost_time,
            [row for row in found["lost"] if row["seconds"]],
        ),
        picture("Members", "members", pictures.members, found["members"]),
        picture("Commits", "commits", pictures.commits, found["commits"]),
        table("Groups", found["groups"]),
        table("Lag now", found["status"]),
        table("Offsets that expire if nothing changes", found["expiry"]),
        table("Rebalances, newest first", found["rebalances"][:100]),
    ]  # fmt: skip
    return document("Consumer groups", parts)


def summary(found: Mapping[str, Rows]) -> list[str]:
    """What there is to know, in words."""
    rebalances, status = found["rebalances"], found["status"]
    groups = counted(len(found["groups"]), "group")
    sentences = [f"{groups}, {counted(len(rebalances), 'rebalance')}. All times are UTC."]
    if found["lost"]:
        worst = found["lost"][0]
        if worst["seconds"]:
            total = sum(row["seconds"] or 0 for row in found["lost"])
            count = counted(worst["rebalances"], "rebalance")
            sentences.append(
                f"Partitions had no owner for {total:,.0f} seconds in all; most of it, "
                f"{worst['seconds']:,.0f} seconds, by {count} with the cause {worst['trigger']}."
            )
    bad = [row for row in status if row["status"] not in ("OK", "UNKNOWN")]
    if bad:
        first = bad[0]
        sentences.append(
            f"Status other than OK: {counted(len(bad), 'partition')}. "
            f"The largest lag, {first['lag']:,} records, has {first['group_id']} "
            f"in {first['topic']}-{first['partition']} ({first['status']})."
        )
    elif status:
        sentences.append("No group is behind in a way that needs a look.")
    if found["expiry"]:
        next_one = found["expiry"][0]
        partitions = counted(next_one["partitions"], "partition")
        sentences.append(
            f"The next offsets to expire are those of {next_one['group_id']} in {next_one['topic']} "
            f"({partitions}), on {_cell(next_one['first'])}, if nothing changes."
        )
    if any(row["inferred"] for row in rebalances):
        sentences.append("There is no journal for some rebalances: their causes are inferred.")
    return sentences


def document(title: str, parts: Sequence[str]) -> str:
    """A page that needs nothing but itself."""
    head, middle, end = re.split("TITLE|BODY", _PAGE)
    return "".join((head, escape(title), middle, "\n".join(parts), end))


def picture(title: str, name: str, draw: Callable[[Sequence[Any]], pictures.Chart], rows: Rows) -> str:
    """A chart of the rows for both themes and widths, under its title; ``name`` is its id."""
    if not rows:
        return f"<h2>{escape(title)}</h2><p>There is nothing to show.</p>"
    chart = draw(rows)
    drawn = [
        f'<div class="{theme.name} {size}">{_svg(pictures.dressed(chart, theme, width))}</div>'
        for theme in (pictures.LIGHT, pictures.DARK)
        for size, width in (("wide", _WIDE), ("narrow", _NARROW))
    ]
    return (
        f'<h2>{escape(title)}</h2><figure id="{name}" aria-label="{escape(title)}">{"".join(drawn)}</figure>'
    )


def _svg(chart: pictures.Chart) -> str:
    try:
        import vl_convert
    except ModuleNotFoundError as error:
        raise MissingExtraError("drawing a report", error.name, "report") from error
    svg: str = vl_convert.vegalite_to_svg(chart)
    return svg


def table(title: str, rows: Rows) -> str:
    """The rows under their title."""
    if not rows:
        return f"<h2>{escape(title)}</h2><p>None.</p>"
    heads = "".join(
        f"<th{_kind(next((row[name] for row in rows if row[name] is not None), None))}>{escape(name)}</th>"
        for name in rows[0]
    )
    body = "".join("<tr>" + "".join(map(_td, row.values())) + "</tr>" for row in rows)
    return (
        f'<h2>{escape(title)}</h2><div class="scroll"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _td(value: object) -> str:
    return f"<td{_kind(value)}>{escape(_cell(value))}</td>"


def _kind(value: object) -> str:
    """Numbers stand under each other; a sentence has room for some words in a line, everywhere."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return ' class="number"'
    return ' class="long"' if len(_cell(value)) > _LONG else ""


def _cell(value: object) -> str:
    """A time without its zone and its fractions; the page says which zone it is."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}"
    text = "" if value is None else str(value)
    return f"{text[:10]} {text[11:19]}" if _TIME.fullmatch(text) else text


_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT[\d:]{8}(\.\d+)?\+00:00")

_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>TITLE</title><link rel="icon" href="data:,"><style>
:root { color-scheme: light dark; --text: #1f2328; --back: #ffffff; --line: #d0d7de }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back);
  max-width: 1060px; margin: 0 auto; padding: 1rem }
h2 { margin-top: 2rem; border-bottom: 1px solid var(--line) }
figure { margin: 0 } figure svg { max-width: 100%; height: auto; overflow: visible }
.dark, .narrow { display: none }
.scroll { overflow-x: auto } table { border-collapse: collapse; font-size: 14px }
th, td { text-align: left; padding: .3rem .7rem; border-bottom: 1px solid var(--line); vertical-align: top;
  white-space: nowrap }
.number { text-align: right }
.long { min-width: 15rem; white-space: normal }
@media (max-width: 700px) { .wide { display: none } .light.narrow { display: block } }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6edf3; --back: #0d1117; --line: #3d444d }
  .light, .light.narrow { display: none } .dark.wide { display: block }
}
@media (prefers-color-scheme: dark) and (max-width: 700px) {
  .dark.wide { display: none } .dark.narrow { display: block }
}
@media print { .light.wide { display: block } .dark, .narrow { display: none !important } }
</style></head><body>
BODY
</body></html>
"""
