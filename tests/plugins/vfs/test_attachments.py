"""Contents beside a workspace are read by their paths, and the oldest of too many go."""

from __future__ import annotations

import pytest

from toolstile_hookspecs import ToolContext
from toolstile_hookspecs.services.workspace import SupportsAttachments
from toolstile_plugins.vfs.nodes import Attachments
from toolstile_plugins.vfs.tools.checks import missing
from toolstile_plugins.vfs.workspace import VirtualFilesystem

MIB = 1024 * 1024


def test_a_call_and_those_within_it_read_what_any_has_attached() -> None:
    files = VirtualFilesystem.in_memory()
    assert isinstance(files, SupportsAttachments)
    outer = files.branch(ToolContext(session=None), None)
    inner = files.branch(ToolContext(session=None), outer)
    path = inner.resource.attach(b"said", ".txt")
    assert (inner.resource.read(path), outer.resource.read(path)) == ("said", "said")
    inner.rollback()
    assert files.read(path) == "said"
    assert files.stat(path).readonly
    assert (outer.changed, outer.diff(), list(files.glob("**"))) == (False, "", [])


def test_what_goes_while_a_call_lasts_is_no_conflict() -> None:
    files = VirtualFilesystem.in_memory()
    branch = files.branch(ToolContext(session=None), None)
    path = branch.resource.attach(b"said")
    branch.resource.write("copy", branch.resource.read(path))
    files.attach(b"x" * 33 * MIB)
    with pytest.raises(FileNotFoundError):
        files.read(path)
    branch.prepare()
    branch.commit()
    assert files.read("copy") == "said"


def test_the_newest_stay_and_one_that_is_too_large_stays_alone() -> None:
    attached = Attachments()
    paths = [attached.add(bytes([number]) * 10 * MIB, "") for number in range(4)]
    assert [attached.get(path) is not None for path in paths] == [False, True, True, True]
    again = attached.add(bytes([1]) * 10 * MIB, "")
    assert again == paths[1]
    large = attached.add(b"x" * 40 * MIB, "")
    assert [attached.get(path) is not None for path in (*paths, large)] == [False] * 4 + [True]


@pytest.mark.parametrize("suffix", ["", ".txt", ".stdout.txt"])
def test_one_that_has_gone_is_told_from_a_missing_file_of_a_directory_of_that_name(
    suffix: str,
) -> None:
    files = VirtualFilesystem.in_memory({".outputs/run.log": "ran"})
    path = files.attach(b"said", suffix)
    files.attach(b"x" * 33 * MIB)
    for spelled in (path, f"/workspace/{path}"):
        assert missing(files, spelled) == (
            f"There is no {path} any more. Call the tool that has written it again."
        )
    assert missing(files, ".outputs/ran.log") == (
        "There is no .outputs/ran.log. Did you mean .outputs/run.log? Use list_directory on "
        ".outputs to see all entries, then retry."
    )
