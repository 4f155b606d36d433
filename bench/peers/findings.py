"""The findings about a peer."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from peers import Peer

Cell = tuple[int, str, str]
"""One figure for calls: the way, the tool, the kind of handler."""


@dataclass
class Series:
    """One figure, measured in several rounds; times in seconds.

    Args:
        floors: What the floor took.
        subjects: What was measured right after it.
        fastest_floors: The fastest sample of the floor.
        fastest_subjects: The fastest sample of what was measured.
    """

    floors: list[float] = field(default_factory=list[float])
    subjects: list[float] = field(default_factory=list[float])
    fastest_floors: list[float] = field(default_factory=list[float])
    fastest_subjects: list[float] = field(default_factory=list[float])

    def add(self, timing: Mapping[str, float]) -> None:
        self.floors.append(timing["floor"])
        self.subjects.append(timing["subject"])
        self.fastest_floors.append(timing["fastest_floor"])
        self.fastest_subjects.append(timing["fastest_subject"])

    @property
    def ratio(self) -> float:
        """The median over the rounds of the ratio to the floor."""
        pairs = zip(self.subjects, self.floors, strict=True)
        return statistics.median(subject / floor for subject, floor in pairs)

    @property
    def fastest(self) -> float:
        """The ratio of the fastest samples of all rounds."""
        return min(self.fastest_subjects) / min(self.fastest_floors)

    @property
    def seconds(self) -> float:
        """The median."""
        return statistics.median(self.subjects)


@dataclass
class Growth:
    """The cost of a session's last calls, as a multiple of the first."""

    ratios: list[float] = field(default_factory=list[float])
    calls: int = 0

    def add(self, measured: Mapping[str, Any]) -> None:
        early, late = measured["early"], measured["late"]
        dearer = (late["subject"] / late["floor"]) / (early["subject"] / early["floor"])
        self.ratios.append(dearer)
        self.calls = measured["calls"]

    @property
    def ratio(self) -> float:
        """The median over the rounds."""
        return statistics.median(self.ratios)


@dataclass
class Findings:
    """Everything about one peer.

    Args:
        peer: Who.
        absent: Why there is nothing about it, where that is so.
        described: What its runner says of it.
        calls: The figures for calls.
        growth: How its ways slow down with their sessions.
        put_back: Rollback, by where the files are and how many.
        watched: What odd arguments did.
        blocked: What a tool did that does not return.
        faults: What could not be found out, and why.
    """

    peer: Peer
    absent: str | None = None
    described: Mapping[str, Any] = field(default_factory=dict[str, Any])
    calls: dict[Cell, Series] = field(default_factory=dict[Cell, Series])
    growth: dict[int, Growth] = field(default_factory=dict[int, Growth])
    put_back: dict[tuple[str, int], Series] = field(default_factory=dict[tuple[str, int], Series])
    watched: Mapping[str, Any] = field(default_factory=dict[str, Any])
    blocked: Mapping[str, Any] = field(default_factory=dict[str, Any])
    faults: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def ways(self) -> list[dict[str, Any]]:
        """Its ways of calling a tool."""
        return self.described.get("ways", [])


def behind(own: Findings, others: list[Findings]) -> list[str]:
    """Return where a peer that does comparable work is as cheap as we are, or cheaper."""
    found: list[str] = []
    for other in others:
        for (way, work, handler), series in other.calls.items():
            if not other.ways[way]["governs"]:
                continue
            ours = [
                mine.ratio
                for (own_way, *rest), mine in own.calls.items()
                if rest == [work, handler] and own.ways[own_way]["governs"]
            ]
            if ours and max(ours) >= series.ratio:
                found.append(f"{work}, {handler} handler: {other.peer.name}")
    return found
