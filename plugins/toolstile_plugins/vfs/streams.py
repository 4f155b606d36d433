"""A stream to write a file with: it counts when it is closed."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from toolstile_plugins.vfs.nodes import Content, InMemory, Spooled

_IN_MEMORY_BYTES: Final = 8 * 1024 * 1024


if TYPE_CHECKING:
    from typing_extensions import Buffer


class WriteStream(io.RawIOBase):
    """Collects what is written and hands it over when closed without an exception.

    Left by an exception, a `with` statement drops what was written.

    Args:
        done: Takes the content.
    """

    def __init__(self, done: Callable[[Content], None]) -> None:
        self._done: Callable[[Content], None] | None = done
        # Closed by `close`, so no context manager can hold it.
        self._buffer = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115 - closed by `close`
        self._size = 0

    def writable(self) -> bool:
        """Tell that it can be written."""
        return True

    def write(self, data: Buffer, /) -> int:
        """Add to the content."""
        if self.closed:
            raise ValueError("The stream is closed, so nothing more can be written to it.")
        view = memoryview(data).cast("B")
        self._buffer.write(view)
        self._size += len(view)
        return len(view)

    def tell(self) -> int:
        """Return how many bytes were written."""
        return self._size

    def close(self) -> None:
        """Make what was written the file's content."""
        if self.closed:
            return
        done, self._done = self._done, None
        try:
            if done is not None:
                done(self._content())
        finally:
            self._buffer.close()
            super().close()

    def then(self, action: Callable[[], None]) -> None:
        """Have something done once the content was taken."""
        done = self._done
        if done is not None:

            def both(content: Content) -> None:
                done(content)
                action()

            self._done = both

    def discard(self) -> None:
        """Close it and drop what was written."""
        self._done = None
        self.close()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.discard()
        self.close()

    def __del__(self) -> None:
        # Collected without having been closed: nobody said that this was all.
        if not self.closed:
            self.discard()

    def _content(self) -> Content:
        self._buffer.seek(0)
        if self._size <= _IN_MEMORY_BYTES:
            return InMemory(self._buffer.read())
        return _spool(cast("BinaryIO", self._buffer), self._size)


def _spool(source: BinaryIO, size: int) -> Spooled:
    """Move a content into a temporary file of its own, deleted with the last who knows it."""
    target = _Temporary()
    with target.path.open("wb") as stream:
        while block := source.read(1 << 20):
            stream.write(block)
    return Spooled(target.open, size)


class _Temporary:
    """A temporary file that lives as long as this object."""

    def __init__(self) -> None:
        handle, name = tempfile.mkstemp(prefix="toolstile-")
        os.close(handle)
        self.path = Path(name)

    def open(self) -> BinaryIO:
        return self.path.open("rb")

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            self.path.unlink()
