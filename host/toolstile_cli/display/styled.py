"""Text with styles, before it is known whether it is shown in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from rich.cells import cell_len, set_cell_size

if TYPE_CHECKING:
    from rich.console import Console
    from rich.style import Style
    from rich.text import Text

ELLIPSIS: Final = "…"


class Styled:
    """A text in parts, each with a style; light, as most of what commands show goes into pipes.

    Args:
        text: Its first part.
        style: The style of that, such as `bold red`.

    Example:
        >>> Styled("3 calls", "bold").append(" in ").append("2 s", "dim").plain
        '3 calls in 2 s'
    """

    __slots__ = ("_parts",)

    def __init__(self, text: str = "", style: str = "") -> None:
        self._parts: list[tuple[str, str | Style]] = [(text, style)] if text else []

    @property
    def plain(self) -> str:
        """The text without its styles."""
        return "".join(text for text, _ in self._parts)

    @property
    def columns(self) -> int:
        """The columns it takes on a screen."""
        return sum(cell_len(text) for text, _ in self._parts)

    def __bool__(self) -> bool:
        """Tell whether there is any text."""
        return bool(self._parts)

    def append(self, text: str, style: str = "") -> Self:
        """Add a part; returns itself."""
        if text:
            self._parts.append((text, style))
        return self

    def extend(self, other: Styled) -> Self:
        """Add the parts of another one; returns itself."""
        self._parts += other._parts
        return self

    def cut(self, columns: int, *, keep_end: bool = False) -> Styled:
        """Return it cut to so many columns, with an ellipsis, in the style of its first part."""
        if self.columns <= columns:
            return self
        shown, plain = Styled(), self.plain
        if keep_end:
            while cell_len(plain) >= columns:
                plain = plain[1:]
            plain = f"{ELLIPSIS}{plain}"
        else:
            plain = f"{set_cell_size(plain, max(columns - 1, 0)).rstrip()}{ELLIPSIS}"
        shown._parts.append((plain, self._parts[0][1]))
        return shown

    def wrapped(self, console: Console, columns: int) -> list[Styled]:
        """Return it as lines of at most so many columns on a console."""
        lines: list[Styled] = []
        for line in self.as_rich().wrap(console, columns):
            shown = Styled()
            shown._parts = [(part.text, part.style or "") for part in line.render(console)]
            lines.append(shown)
        return lines

    def as_rich(self) -> Text:
        """Return it as a text of rich."""
        from rich.text import Text  # heavy: only a terminal needs it

        return Text.assemble(*self._parts)
