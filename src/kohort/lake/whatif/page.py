"""A what-if as a page: its words, two pictures, and the table behind them."""

from html import escape

from kohort.lake import pictures
from kohort.lake.report import document, picture, table
from kohort.lake.whatif.answer import Answer

_MOST_SHOWN = 40  # settings in a picture: more would not be read
_HOUR_MS = 3_600_000


def page(answer: Answer) -> str:
    """The page, as HTML. Raises ``MissingExtraError`` without the library that draws."""
    shown = answer.outcomes[:_MOST_SHOWN]
    bars = [
        {
            "settings": one.label,
            "seconds": one.unowned_ms.middle / 1_000,
            "least": one.unowned_ms.least / 1_000,
            "most": one.unowned_ms.most / 1_000,
        }
        for one in shown
    ]
    ticks = [{"settings": one.label, "hours": at / _HOUR_MS} for one in shown for at in one.started]
    rows = [
        {
            "settings": one.label,
            "rebalances": f"{one.rebalances.middle:.0f}",
            "least": f"{one.rebalances.least:.0f}",
            "most": f"{one.rebalances.most:.0f}",
            "seconds without an owner": f"{one.unowned_ms.middle / 1_000:,.0f}",
            "of them with a dead one": f"{one.dead_ms.middle / 1_000:,.0f}",
            "longest": f"{one.longest_ms.middle / 1_000:,.0f}",
            "partitions moved": f"{one.moved.middle:,.0f}",
        }
        for one in answer.outcomes
    ]
    title = f"What if group {answer.group} had had other settings?"
    parts = [
        f"<h1>{escape(title)}</h1>",
        *(f"<p>{escape(sentence)}</p>" for sentence in answer.words),
        picture("Time without an owner", "unowned", pictures.tried_settings, bars),
        picture("Rebalances of one run", "rebalances", pictures.tried_rebalances, ticks),
        table(f"All settings, {answer.seeds} runs of each: medians", rows),
        "<h2>What this takes for granted</h2>",
        f"<ul>{''.join(f'<li>{escape(each)}</li>' for each in answer.assumptions)}</ul>",
    ]
    return document(title, parts)
