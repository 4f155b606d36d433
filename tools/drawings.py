"""Draws the picture of each page of concepts: `python tools/drawings.py`.

The drawings are narrow and their text is large, so that it can be read on a telephone. They take
their colour from the reader's scheme, light or dark.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

CONCEPTS: Final = Path(__file__).parents[1] / "docs" / "concepts"

WIDTH: Final = 430
LINE: Final = 22
"""Pixels: the width of a drawing, and the height of a line."""

HUES: Final = {"plain": "#8b949e", "good": "#2da44e", "bad": "#e5534b", "people": "#a371f7"}
"""The colour of a box; its text has that of the scheme."""

STYLE: Final = """\
    svg { color: #1f2328; font: 17px system-ui, -apple-system, 'Segoe UI', sans-serif }
    @media (prefers-color-scheme: dark) { svg { color: #e6edf3 } }
    text { fill: currentColor; text-anchor: middle }
    .left { text-anchor: start }
    .way { fill: none; stroke: currentColor; stroke-width: 1.5; marker-end: url(#head) }
    .edge { fill: none; stroke: currentColor; stroke-dasharray: 6 5; stroke-width: 1.5 }
    .group { fill: currentColor; fill-opacity: 0.04; stroke: currentColor; stroke-opacity: 0.3 }"""

HEAD: Final = """\
  <defs>
    <marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"
      orient="auto"><path d="M0 0 8 4 0 8z" fill="currentColor"/></marker>
  </defs>"""


class Box(NamedTuple):
    """The place of a box; arrows begin and end at the middles of its sides."""

    x: float
    y: float
    width: float
    height: float

    @property
    def top(self) -> tuple[float, float]:
        """The middle of this side."""
        return self.x + self.width / 2, self.y

    @property
    def bottom(self) -> tuple[float, float]:
        """The middle of this side."""
        return self.x + self.width / 2, self.y + self.height

    @property
    def left(self) -> tuple[float, float]:
        """The middle of this side."""
        return self.x, self.y + self.height / 2

    @property
    def right(self) -> tuple[float, float]:
        """The middle of this side."""
        return self.x + self.width, self.y + self.height / 2


class Drawing:
    """A drawing of boxes and arrows, made from top to bottom."""

    def __init__(self, title: str, description: str, height: int) -> None:
        self.title = title
        self.description = description
        self.height = height
        self._parts: list[str] = []

    def group(self, y: float, height: float, label: str) -> None:
        """Draw a frame around the next boxes, with a label at its top."""
        self._parts.append(
            f'<rect class="group" x="1" y="{y:g}" width="{WIDTH - 2}" height="{height:g}" rx="8"/>'
        )
        self.text(14, y + 24, label)

    def box(self, x: float, y: float, width: float, *lines: str, hue: str = "plain") -> Box:
        """Draw a box with lines of text."""
        height = LINE * len(lines) + 15
        colour = HUES[hue]
        self._parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height}" rx="6" fill="{colour}"'
            f' fill-opacity="0.14" stroke="{colour}" stroke-width="1.5"/>'
        )
        for number, line in enumerate(lines):
            baseline = y + 23 + LINE * number
            self._parts.append(
                f'<text x="{x + width / 2:g}" y="{baseline:g}">{escape(line)}</text>'
            )
        return Box(x, y, width, height)

    def row(self, y: float, *names: str, hue: str = "plain") -> list[Box]:
        """Draw up to three boxes side by side, with an arrow from each to the next."""
        boxes = self.columns(y, *names, hue=hue)
        for one, other in pairwise(boxes):
            self.arrow(one.right, other.left)
        return boxes

    def columns(self, y: float, *names: str, hue: str = "plain") -> list[Box]:
        """Draw up to three boxes side by side."""
        return [
            self.box(14 + 140 * at, y, 122, *name.split("\n"), hue=hue)
            for at, name in enumerate(names)
        ]

    def text(self, x: float, y: float, line: str) -> None:
        """Write a line that begins at a place."""
        self._parts.append(f'<text class="left" x="{x:g}" y="{y:g}">{escape(line)}</text>')

    def arrow(self, *points: tuple[float, float]) -> None:
        """Draw an arrow through places."""
        path = " ".join(f"{x:g} {y:g}" for x, y in points)
        self._parts.append(f'<path class="way" d="M{path}"/>')

    def wrap(self, one: Box, other: Box) -> None:
        """Draw an arrow from the end of a row to the beginning of the next."""
        middle = (one.bottom[1] + other.top[1]) / 2
        self.arrow(one.bottom, (one.bottom[0], middle), (other.top[0], middle), other.top)

    def edge(self, y: float, left: float = 0, right: float = WIDTH) -> None:
        """Draw a dashed line, from side to side by default."""
        self._parts.append(f'<path class="edge" d="M{left:g} {y:g} {right:g} {y:g}"/>')

    def svg(self) -> str:
        """Return the drawing as a file."""
        size = f'width="{WIDTH}" height="{self.height}" viewBox="0 0 {WIDTH} {self.height}"'
        named = 'role="img" aria-labelledby="title desc"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} {named}>',
                f'  <title id="title">{escape(self.title)}</title>',
                f'  <desc id="desc">{escape(self.description)}</desc>',
                f"  <style>\n{STYLE}\n  </style>",
                HEAD,
                *(f"  {part}" for part in self._parts),
                "</svg>",
                "",
            ]
        )


def life_of_a_call() -> Drawing:
    """Draw the stages in their three groups."""
    drawing = Drawing(
        "The life of a call",
        "Admission: lookup, parse, deadline, check, approve, reserve. A refused call has not run. "
        "Then, on the branch of the call: snapshot, execute, render, changed files. If the call "
        "fails, the branch is dropped. Then, in the commit turn of the session: validate, "
        "on_result, prepare, commit. After a conflict a contained tool runs again. Every call "
        "makes one event.",
        640,
    )
    drawing.group(1, 172, "Admission")
    first = drawing.row(36, "lookup", "parse", "deadline")
    second = drawing.row(94, "check", "approve", "reserve")
    drawing.wrap(first[2], second[0])
    drawing.text(14, 159, "✕ refused: nothing has run")
    drawing.group(197, 172, "On the branch of the call")
    third = drawing.row(232, "snapshot", "execute", "render", hue="people")
    fourth = drawing.row(290, "file changes", hue="people")
    drawing.wrap(third[2], fourth[0])
    drawing.text(14, 355, "✕ failed: the host drops the branch")
    drawing.arrow((215, 173), (215, 197))
    drawing.group(393, 172, "In the commit turn of the session")
    fifth = drawing.row(428, "validate", "on_result", "prepare", hue="good")
    sixth = drawing.row(486, "commit", hue="good")
    drawing.wrap(fifth[2], sixth[0])
    drawing.text(14, 551, "✕ conflict: a contained tool runs again")
    drawing.arrow((215, 369), (215, 393))
    event = drawing.box(14, 595, 402, "one event, for every outcome")
    drawing.arrow((215, 565), event.top)
    return drawing


def state() -> Drawing:
    """Draw the fork of a branch, and its two ends."""
    drawing = Drawing(
        "The state model",
        "A call forks a branch from the session, with a read set and a write set. In its commit "
        "turn the host validates the read set. If the data is unchanged, the writes become part "
        "of the session. Otherwise the branch is dropped.",
        366,
    )
    drawing.box(1, 16, 150, "Session", "10 teapots", hue="good")
    branch = drawing.box(
        232, 1, 197, "Branch of the call", "read: 10 teapots", "written: 6 teapots"
    )
    drawing.arrow((151, 42), (232, 42))
    drawing.text(171, 32, "fork")
    turn = drawing.box(1, 139, 428, "Validate: is the data that was read unchanged?", hue="people")
    drawing.arrow(branch.bottom, (branch.bottom[0], turn.y))
    keep = drawing.box(1, 231, 206, "Prepare everything,", "commit everything")
    drop = drawing.box(223, 231, 206, "Drop the branch:", "nothing remains", hue="bad")
    drawing.arrow((104, turn.y + turn.height), keep.top)
    drawing.text(116, 210, "yes")
    drawing.arrow((326, turn.y + turn.height), drop.top)
    drawing.text(338, 210, "no")
    after = drawing.box(29, 320, 150, "6 teapots", hue="good")
    drawing.arrow(keep.bottom, after.top)
    kept = drawing.box(251, 320, 150, "10 teapots", hue="good")
    drawing.arrow(drop.bottom, kept.top)
    return drawing


def policies_and_people() -> Drawing:
    """Draw how answers combine, and the way through a person."""
    drawing = Drawing(
        "Policies and people",
        "The host asks every policy. If one denies, the model reads the reasons. Otherwise, if one "
        "asks, a person decides. After an approval the host asks every policy again, then the "
        "tool runs. If all allow, the tool runs at once.",
        410,
    )
    asked = drawing.columns(1, "policy", "policy", "plugin")
    strictest = drawing.box(1, 77, 428, "The strictest answer counts")
    for each in asked:
        drawing.arrow(each.bottom, (each.bottom[0], strictest.y))
    person = drawing.box(141, 169, 148, "A person", "decides", hue="people")
    reads = drawing.box(1, 169, 108, "The model", "reads why", hue="bad")
    drawing.arrow((59, 113), reads.top)
    drawing.text(68, 149, "deny")
    drawing.arrow((215, 113), person.top)
    drawing.text(224, 149, "ask")
    drawing.arrow(person.left, reads.right)
    drawing.text(114, 188, "no")
    again = drawing.box(141, 280, 148, "Every policy", "is asked again")
    drawing.arrow(person.bottom, again.top)
    drawing.text(224, 256, "yes")
    drawing.arrow(again.left, (59, again.left[1]), reads.bottom)
    drawing.text(68, 270, "deny")
    runs = drawing.box(141, 371, 288, "The tool runs", hue="good")
    drawing.arrow(again.bottom, (again.bottom[0], runs.y))
    drawing.arrow((361, 113), (361, runs.y))
    drawing.text(370, 149, "allow")
    return drawing


def exactly_once() -> Drawing:
    """Draw the steps of an effect, and the state that a crash leaves after each."""
    drawing = Drawing(
        "Exactly once",
        "A call with a key claims the key, sends the effect, and records the result with its "
        "commit. After a crash before the claim, the next call runs. After a crash between claim "
        "and commit, the effect is unknown: no call repeats it until it is reconciled or "
        "resolved. After the commit, the same call gets the recorded result.",
        392,
    )
    steps = [
        drawing.box(1, 1, 176, "call with a key"),
        drawing.box(1, 91, 176, "claim the key"),
        drawing.box(1, 181, 176, "act outside", hue="people"),
        drawing.box(1, 271, 176, "commit result"),
        drawing.box(1, 353, 176, "answer", hue="good"),
    ]
    for one, other in pairwise(steps):
        drawing.arrow(one.bottom, other.top)
    drawing.text(202, 25, "If the process dies, then:")
    drawing.box(199, 47, 230, "the next call runs", hue="good")
    unknown = ("unknown:", "no call repeats the effect", "until it is reconciled", "or resolved")
    drawing.box(199, 150, 230, *unknown, hue="bad")
    drawing.box(199, 300, 230, "the next call returns", "the recorded result", hue="good")
    for y in (64, 154, 244, 331):
        drawing.edge(y, 93, 199)
    return drawing


def trust_boundaries() -> Drawing:
    """Draw who is checked, and the code that is not."""
    drawing = Drawing(
        "Trust boundaries",
        "Models, MCP servers and network clients are outside. The host checks their requests. "
        "Handlers, plugins and workers are within, with the rights of your user. Programs and code "
        "of a model are contained only by a sandbox or a container.",
        380,
    )
    outside = drawing.columns(1, "model", "MCP server", "client", hue="bad")
    drawing.edge(76)
    for each in outside:
        drawing.arrow(each.bottom, (each.bottom[0], 75))
    drawing.text(1, 98, "Boundary: the host checks every message.")
    drawing.arrow((215, 108), (215, 136))
    drawing.group(137, 142, "Your process, with the rights of your user")
    host = drawing.box(14, 173, 402, "host: parsing, policies, approval", hue="good")
    for each in drawing.columns(229, "handlers", "plugins", "workers"):
        drawing.arrow((each.top[0], host.y + host.height), each.top)
    drawing.edge(302)
    drawing.text(1, 325, "Boundary: the operating system, not Toolstile.")
    drawing.box(1, 341, 428, "sandbox or container: code of a model", hue="bad")
    return drawing


def growth() -> Drawing:
    """Draw many hosts, their database and their workers."""
    drawing = Drawing(
        "Growth",
        "A balancer sends sessions to any of several hosts, one for each processor. All hosts "
        "share one PostgreSQL with sessions, effects, limits and questions. Workers run slow "
        "handlers. Workspaces and records stay on the machine of a host.",
        345,
    )
    balancer = drawing.box(1, 1, 428, "balancer: any session to any host")
    hosts = drawing.columns(
        77, "host 1\n1 process", "host 2\n1 process", "host n\n1 process", hue="good"
    )
    shared = "PostgreSQL: sessions, effects, limits, questions"
    database = drawing.box(1, 174, 428, shared, hue="people")
    for each in hosts:
        drawing.arrow((each.top[0], balancer.height + 1), each.top)
        drawing.arrow(each.bottom, (each.bottom[0], database.y))
    workers = drawing.box(1, 250, 206, "workers:", "slow handlers")
    drawing.arrow((104, database.y + database.height), workers.top)
    drawing.box(223, 250, 206, "on each machine:", "workspaces, records")
    drawing.text(1, 332, "Sessions do not wait for one another.")
    return drawing


DRAWINGS: Final[dict[str, Callable[[], Drawing]]] = {
    "life-of-a-call": life_of_a_call,
    "state": state,
    "policies-and-people": policies_and_people,
    "exactly-once": exactly_once,
    "trust-boundaries": trust_boundaries,
    "growth": growth,
}
"""The drawings, by the names of their pages."""


def main() -> None:
    """Write all drawings."""
    for name, draw in DRAWINGS.items():
        (CONCEPTS / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
