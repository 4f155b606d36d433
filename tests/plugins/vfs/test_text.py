"""Text keeps its encoding, byte for byte, and what is no text is said to be binary."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from hypothesis import assume, example, given, strategies as st

from toolstile_hookspecs import SupportsNotes
from toolstile_plugins.vfs import text_files as text
from toolstile_plugins.vfs.text_files import Encoding, decode, encode, encoding_of, line_blocks
from toolstile_plugins.vfs.workspace import VirtualFilesystem, WorkspaceBranch

Branch = Callable[..., WorkspaceBranch]

ENCODINGS: list[Encoding] = ["utf-8", "utf-16-le", "utf-16-be", "cp1252"]

# Bytes of which many are text in one encoding or another.
likely = st.one_of(
    st.binary(),
    st.text().map(str.encode),
    st.text(alphabet="aé€\r\n\t").map(lambda each: each.encode("cp1252")),
    st.text().map(lambda each: f"\ufeff{each}".encode("utf-16-le")),
    st.text().map(lambda each: f"\ufeff{each}".encode("utf-16-be")),
)


@given(likely)
@example(b"\xff\xfe")
@example(b"\xff\xfe\0\0")
@example(b"\xff\xfe\xff\xfe")
@example(b"\xef\xbb\xbfone\r\n")
@example(b"caf\xe9")
@example(b"\xc3\x83\xc2\xa9")
def test_what_is_read_and_written_back_is_the_same_file(data: bytes) -> None:
    assume(encoding_of(data) is not None)
    content, encoding = decode(data, "a.txt")

    assert encode(content, "a.txt", encoding) == data


@given(st.text(), st.sampled_from(ENCODINGS))
@example("Ã©", "cp1252")
@example("\x01é", "cp1252")
@example("ÿþab", "cp1252")
@example("a\0b", "utf-16-le")
@example("日本", "cp1252")
def test_what_is_written_is_read_again_or_refused(content: str, encoding: Encoding) -> None:
    try:
        data = encode(content, "a.txt", encoding)
    except ValueError as refusal:
        assert str(refusal).startswith("a.txt cannot be written: ")  # noqa: PT017 - either
        return
    assume(encoding != "utf-8" or encoding_of(data) == "utf-8")  # NUL is binary in UTF-8
    assert decode(data, "a.txt")[0] == content


def test_encodings_are_told_apart(subtests: pytest.Subtests) -> None:
    for data, encoding in [
        (b"", "utf-8"),
        (b"plain\n", "utf-8"),
        (b"\xef\xbb\xbfmarked", "utf-8"),
        (b"caf\xe9\r\n", "cp1252"),
        (b"\x93quoted\x94 \x80 5", "cp1252"),
        (b"a\tb\x0bc\x0cd\x1b[0m\xe9", "cp1252"),
        (b"\xff\xfea\0", "utf-16-le"),
        (b"\xfe\xff\0a", "utf-16-be"),
        (b"a\0b", None),
        (b"\xe9\x01", None),
        (b"\xe9\x7f", None),
        (b"\x81\xe9", None),
        (b"\xff\xfe\0\xd8", None),
        (b"\xff\xfea\0\0\0b\0", None),
        (b"\xff\xfea\0b", None),
    ]:
        with subtests.test(data=data, encoding=encoding):
            assert encoding_of(data) == encoding


@pytest.mark.slow
@given(st.lists(st.text(alphabet="ab\né", max_size=6)), st.sampled_from(ENCODINGS))
def test_blocks_of_lines_put_together_are_the_text(parts: list[str], encoding: Encoding) -> None:
    content = "".join(parts)
    data = encode(content, "a.txt", encoding) if encoding != "cp1252" else content.encode(encoding)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "_BLOCK_BYTES", 5)
        blocks = list(line_blocks(io.BytesIO(data), "a.txt"))

    assert b"".join(blocks).decode() == content
    assert all(block.endswith(b"\n") for block in blocks[:-1])


def test_a_line_that_is_too_long_to_look_at_is_told_with_its_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(text, "_BLOCK_BYTES", 4)
    monkeypatch.setattr(text, "MAX_LINE_BYTES", 20)

    with pytest.raises(ValueError, match=r"a\.txt has a line of more than"):
        list(line_blocks(io.BytesIO(b"short\n" + b"x" * 30), "a.txt"))


class TestInAWorkspace:
    @pytest.mark.parametrize(
        ("data", "title"),
        [
            (b"caf\xe9\r\n", "Windows-1252"),
            ("\ufeffcafé\r\n".encode("utf-16-le"), "UTF-16 (little-endian)"),
        ],
    )
    def test_an_edit_keeps_the_encoding_and_says_which(
        self, workspace: VirtualFilesystem, branch_of: Branch, data: bytes, title: str
    ) -> None:
        workspace.write_bytes("a.txt", data)
        files = branch_of(workspace).resource
        files.write("a.txt", files.read("a.txt").replace("caf", "d\u00e9caf"))

        assert isinstance(files, SupportsNotes)
        assert files.read_bytes("a.txt") == (
            data.replace(b"caf", b"d\xe9caf")
            if title == "Windows-1252"
            else "\ufeffdécafé\r\n".encode("utf-16-le")
        )
        assert files.notes() == [f"a.txt is not UTF-8; it is read, and stays, as {title}."]

    def test_what_the_encoding_has_no_place_for_is_refused(
        self, workspace: VirtualFilesystem
    ) -> None:
        workspace.write_bytes("a.txt", b"caf\xe9")
        with pytest.raises(ValueError, match=r"stored as Windows-1252, which has no '\\u65e5'"):
            workspace.write("a.txt", "日本")
        assert workspace.read_bytes("a.txt") == b"caf\xe9"

        workspace.delete("a.txt")
        workspace.write("a.txt", "日本")
        assert workspace.read_bytes("a.txt") == "日本".encode()

    def test_a_binary_file_that_is_replaced_by_text_is_utf_8(
        self, workspace: VirtualFilesystem
    ) -> None:
        workspace.write_bytes("a", b"\0\xe9")
        workspace.write("a", "é")
        assert workspace.read_bytes("a") == "é".encode()

    def test_searches_find_lines_in_every_encoding(self, workspace: VirtualFilesystem) -> None:
        line = "first\ncafé noir\n"
        for encoding in ENCODINGS:
            data = line.encode(encoding)
            mark = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}.get(encoding, b"")
            workspace.write_bytes(f"{encoding}.txt", mark + data)

        found = [(each.path, each.line, each.text) for each in workspace.search("f. n")]
        assert found == [(f"{each}.txt", 2, "café noir") for each in sorted(ENCODINGS)]

    def test_a_diff_shows_lines_in_every_encoding(
        self, workspace: VirtualFilesystem, branch_of: Branch
    ) -> None:
        workspace.write_bytes("a.txt", b"caf\xe9\n")
        branch = branch_of(workspace)
        branch.resource.write("a.txt", "thé\n")

        assert "-café\n+thé\n" in branch.diff()
