"""How a number is measured: alternating rounds, the median, the spread."""

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Table:
    """One measurement of several subjects, the same unit for all."""

    title: str
    unit: str
    note: str = ""
    higher_is_better: bool = True
    compared: bool = True  # whether the subjects do the same
    samples: dict[str, list[float]] = field(default_factory=dict)

    def add(self, subject: str, value: float) -> None:
        self.samples.setdefault(subject, []).append(value)

    def median(self, subject: str) -> float:
        return statistics.median(self.samples[subject])

    def as_markdown(self) -> str:
        """A table with medians, the range seen, and how the first subject compares with each."""
        lines = [
            f"### {self.title}",
            "",
            *([self.note, ""] if self.note else []),
            f"| | median ({self.unit}) | range | Kohort is |",
            "|---|---|---|---|",
        ]
        subjects = list(self.samples)
        for subject in subjects:
            values = self.samples[subject]
            lines.append(
                f"| {subject} | {_shown(self.median(subject))}"
                f" | {_shown(min(values))} to {_shown(max(values))}"
                f" | {self._compared(subjects[0], subject)} |"
            )
        return "\n".join([*lines, ""])

    def _compared(self, first: str, other: str) -> str:
        if other == first or not self.compared:
            return ""
        ours, theirs = self.median(first), self.median(other)
        if not ours or not theirs:
            return ""
        ratio = ours / theirs if self.higher_is_better else theirs / ours
        return f"{ratio:.2f}x"


def _shown(value: float) -> str:
    if value >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def alternate(table: Table, subjects: Mapping[str, Callable[[], float]], rounds: int) -> None:
    """One round of each subject after another, so that a slow minute of the machine hits all alike."""
    for _ in range(rounds):
        for name, measure in subjects.items():
            table.add(name, measure())
