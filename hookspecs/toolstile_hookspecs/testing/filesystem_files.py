"""Reading and writing files."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from datetime import timedelta
from typing import Any, cast

import pytest

from toolstile_hookspecs.services.filesystem import Filesystem

TEXTS = [
    "",
    "one line",
    "one line\n",
    "unix\nlines\n",
    "windows\r\nlines\r\n",
    "old mac\rlines\r",
    "mixed\r\nlines\nand\r",
    "\n\n\n",
    "\ufeffwith a byte order mark\n",
    "Gr\u00fc\u00dfe, \u65e5\u672c, \U0001f600",
    "e\u0301",
    "tab\tand\x0bform\x0cfeed",
    "escape \x1b[0m",
    "no newline at the\nend",
    "x" * 100_000,
    "line\n" * 20_000,
]
BINARIES = [
    b"\0",
    b"text\0text",
    b"\x89PNG\r\n\x1a\n\0\0",
    b"\x1f\x8b\x08\x01\x02\x9d",
    bytes(range(256)),
    b"x" * 8000 + b"\0",
]
OTHER_ENCODINGS = [
    b"caf\xe9\r\n",
    b"\x80 5",
    b"na\xefve\n" * 20_000,
    "\ufeffUTF\r\n\U0001f600".encode("utf-16-le"),
    "\ufeffUTF\n".encode("utf-16-be"),
]


def _shown(content: str | bytes) -> str:
    text = ascii(content)
    return text if len(text) < 40 else f"{text[:30]}...{len(content)}"  # noqa: PLR2004 - a line


class FileCases:
    """One file at a time."""

    @pytest.mark.parametrize("text", TEXTS, ids=_shown)
    def test_text_comes_back_as_it_was(self, files: Filesystem, text: str) -> None:
        files.write("a.txt", text)
        assert files.read("a.txt") == text
        assert files.read_bytes("a.txt") == text.encode()

    @pytest.mark.parametrize("data", BINARIES, ids=_shown)
    def test_binary_files_are_said_to_be_binary(self, files: Filesystem, data: bytes) -> None:
        files.write_bytes("a.bin", data)
        assert files.read_bytes("a.bin") == data
        with pytest.raises(ValueError, match="binary"):
            files.read("a.bin")

    @pytest.mark.parametrize("data", OTHER_ENCODINGS, ids=_shown)
    def test_text_in_another_encoding_stays_in_it_or_is_said_to_be_binary(
        self, files: Filesystem, data: bytes
    ) -> None:
        files.write_bytes("a.txt", data)
        try:
            text = files.read("a.txt")
        except ValueError as error:
            assert "binary" in str(error)  # noqa: PT017 - either is right
            return
        files.write("a.txt", text)
        assert files.read_bytes("a.txt") == data
        files.write("a.txt", f"{text}more\n")
        assert files.read("a.txt") == f"{text}more\n"

    @pytest.mark.parametrize("size", [0, 1, 4095, 4096, 4097, 1_000_000])
    def test_bytes_come_back_as_they_were(self, files: Filesystem, size: int) -> None:
        data = (b"0123456789abcdef" * (size // 16 + 1))[:size]
        files.write_bytes("a.bin", data)
        assert files.read_bytes("a.bin") == data
        assert files.stat("a.bin").size == size

    def test_half_a_surrogate_pair_cannot_be_written(self, files: Filesystem) -> None:
        with pytest.raises(ValueError, match="surrogate"):
            files.write("a.txt", "x\ud800")
        assert not files.exists("a.txt")

    def test_writing_makes_the_directories(self, files: Filesystem) -> None:
        files.write("a/b/c.txt", "one")
        assert files.stat("a/b").kind == "directory"
        assert files.read("a/b/c.txt") == "one"

    def test_writing_again_replaces_all(self, files: Filesystem) -> None:
        files.write("a.txt", "a long text")
        files.write("a.txt", "short")
        assert files.read("a.txt") == "short"

    def test_what_the_caller_changes_later_is_not_in_the_file(self, files: Filesystem) -> None:
        data = bytearray(b"one")
        files.write_bytes("a.txt", cast("bytes", data))
        data[:] = b"two"
        assert files.read("a.txt") == "one"

    def test_a_file_that_is_not_there(self, files: Filesystem) -> None:
        for operation in (files.read, files.read_bytes, files.stat, files.delete, files.open):
            with pytest.raises(FileNotFoundError, match="missing"):
                operation("missing/a.txt")
        assert not files.exists("missing/a.txt")
        assert not files.exists("missing")

    def test_a_directory_is_no_file(self, files: Filesystem) -> None:
        files.mkdir("d")
        for operation in (files.read, files.read_bytes, files.open):
            with pytest.raises(IsADirectoryError, match="directory"):
                operation("d")
        with pytest.raises(IsADirectoryError):
            files.write("d", "x")
        with pytest.raises(IsADirectoryError):
            files.write("", "x")
        assert files.stat("d").kind == "directory"

    def test_a_file_is_no_directory(self, files: Filesystem) -> None:
        files.write("f", "one")
        operations = (
            lambda: files.write("f/a", "x"),
            lambda: files.write("f/a/b", "x"),
            lambda: files.read("f/a"),
            lambda: files.stat("f/a"),
            lambda: files.mkdir("f/a"),
            lambda: files.list("f"),
            lambda: list(files.glob("*", "f")),
            lambda: files.copy("f", "f2/../f/a"),
            lambda: files.delete("f/a"),
        )
        for operation in operations:
            with pytest.raises((NotADirectoryError, ValueError)):
                operation()
        assert not files.exists("f/a")
        assert files.read("f") == "one"

    def test_deleting_a_file(self, files: Filesystem) -> None:
        files.write("d/a.txt", "one")
        files.delete("d/a.txt")
        assert not files.exists("d/a.txt")
        assert files.exists("d")
        with pytest.raises(FileNotFoundError):
            files.read("d/a.txt")

    def test_a_deleted_file_can_be_written_again(self, files: Filesystem) -> None:
        files.write("a.txt", "one")
        files.delete("a.txt")
        files.write("a.txt", "two")
        assert files.read("a.txt") == "two"

    def test_a_file_can_take_the_place_of_a_directory_and_back(self, files: Filesystem) -> None:
        files.write("x/a.txt", "one")
        files.delete("x", recursive=True)
        files.write("x", "a file")
        assert files.read("x") == "a file"
        files.delete("x")
        files.write("x/b.txt", "two")
        assert [each.path for each in files.list("x")] == ["x/b.txt"]

    def test_what_is_known_of_a_file(self, files: Filesystem) -> None:
        files.write("d/a.txt", "one")
        stat = files.stat("d/a.txt")
        assert (stat.path, stat.kind, stat.size, stat.readonly) == ("d/a.txt", "file", 3, False)
        if stat.modified is not None:
            assert stat.modified.utcoffset() == timedelta(0)
        if stat.digest is not None:
            assert stat.digest == hashlib.sha256(b"one").hexdigest()

    def test_what_is_known_of_a_directory(self, files: Filesystem) -> None:
        files.mkdir("d")
        stat = files.stat("d")
        assert (stat.path, stat.kind, stat.size) == ("d", "directory", 0)

    def test_what_can_be_written_is_not_read_only(self, files: Filesystem) -> None:
        files.write("a.txt", "one")
        assert not files.is_readonly("a.txt")
        assert not files.is_readonly("not/there/yet")

    def test_reading_a_stream(self, files: Filesystem) -> None:
        files.write_bytes("a.bin", b"0123456789")
        with files.open("a.bin") as stream:
            assert stream.read(4) == b"0123"
            stream.seek(8)
            assert stream.read() == b"89"

    def test_writing_a_stream_counts_when_it_is_closed(self, files: Filesystem) -> None:
        files.write("a.txt", "before")
        stream = files.open("a.txt", "wb")
        assert stream.write(b"one ") == len(b"one ")
        stream.write(b"two")
        assert files.read("a.txt") == "before"
        stream.close()
        assert files.read("a.txt") == "one two"
        stream.close()
        with pytest.raises(ValueError, match="closed"):
            stream.write(b"more")

    def test_appending_to_a_stream(self, files: Filesystem) -> None:
        for text in (b"one ", b"two"):
            with files.open("d/a.txt", "ab") as stream:
                stream.write(text)
        assert files.read("d/a.txt") == "one two"

    def test_a_stream_left_by_an_exception_writes_nothing(self, files: Filesystem) -> None:
        files.write("a.txt", "before")
        stream = files.open("a.txt", "wb")
        with suppress(ZeroDivisionError), stream:
            stream.write(b"half of")
            raise ZeroDivisionError
        assert files.read("a.txt") == "before"

    def test_a_stream_of_many_megabytes(self, files: Filesystem) -> None:
        block = b"0123456789abcdef" * 65_536
        with files.open("big", "wb") as stream:
            for _ in range(10):
                stream.write(block)
        assert files.stat("big").size == 10 * len(block)
        with files.open("big") as stream:
            stream.seek(9 * len(block))
            assert stream.read() == block

    def test_a_stream_has_few_modes(self, files: Filesystem) -> None:
        files.write("a.txt", "one")
        with pytest.raises(ValueError, match="mode"):
            files.open("a.txt", cast("Any", "r+b"))
