"""The tools: one level of a directory, what changed since, and the digest made anew."""

from __future__ import annotations

import pytest

from toolstile_hookspecs import Status, ToolCall
from toolstile_plugins.vfs import VirtualFilesystem
from toolstile_plugins.workspace_digest import DirectoryDigest, WorkspaceDigest


def call(shown, name: str, **arguments):
    return shown.tools.dispatch(ToolCall(name, arguments))


def test_a_directory_is_shown_one_level_at_a_time(show, make_files, project):
    files = make_files({**project, "src/parts/crust.py": "", "src/README.md": "# Source\n"})
    with show(files) as shown:
        told = call(shown, "digest_directory", path="src/").text
        assert told == (
            "src: 4 files, 37 bytes\nFrom src/README.md:\n> # Source\n"
            "Kinds: 3 .py (28 bytes), 1 .md (9 bytes)\n\n"
            "Files:\nparts/ (1 file)\nREADME.md\ndough.py\noven.py"
        )
        assert "crust.py" in call(shown, "digest_directory", path="src/parts").text
        assert call(shown, "digest_directory").text.startswith("8 files, ")


def test_a_second_look_says_what_has_changed(show, make_files, project):
    files = make_files(project)
    with show(files) as shown:
        first = call(shown, "digest_directory", path="src").text
        again = call(shown, "digest_directory", path="/workspace/src").text
        assert again == f"Nothing has changed since it was shown.\n{first}"
        files.write("src/oven.py", "")
        files.write("src/rack.py", "")
        changed = call(shown, "digest_directory", path="src").text
        assert changed.startswith("Changed since it was shown: `src/oven.py`, `src/rack.py`.\n")
        assert call(shown, "digest_directory", path="src").text.startswith("Nothing has changed")
        assert [known.path for known in shown.session[DirectoryDigest].all()] == ["src"]


def test_the_bounds_hold_for_a_directory_too(show):
    files = VirtualFilesystem.in_memory(dict.fromkeys([f"d/{n:03}.txt" for n in range(300)], ""))
    with show(files, max_entries=20) as shown:
        told = call(shown, "digest_directory", path="d").text
        assert told.endswith("019.txt\n... and 280 more")


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("scr", "There is no scr. Did you mean src?"),
        ("README.md", "README.md is a file, not a directory."),
        ("../etc", "leads outside the workspace"),
        ("/etc", "is absolute"),
    ],
)
def test_what_is_no_directory_is_refused(show, project, path, told):
    with show(VirtualFilesystem.in_memory(project)) as shown:
        outcome = call(shown, "digest_directory", path=path)
        assert not outcome.success
        assert told in outcome.text


@pytest.mark.parametrize("name", ["digest_directory", "refresh_digest"])
def test_without_a_workspace_the_tools_say_so(show, name):
    with show() as shown:
        outcome = call(shown, name)
        assert outcome.status is Status.FAILED
        assert "There is no workspace here" in outcome.text


def test_the_tools_write_no_file(show, counting, project):
    files = counting(VirtualFilesystem.in_memory(project))
    with show(files) as shown:
        call(shown, "digest_directory", path="src")
        call(shown, "refresh_digest")
        assert {*files.asked} == {"glob", "read", "stat"}
        assert [tool.category for tool in shown.tools.prompt.tools()] == ["read", "read"]


def test_a_digest_made_anew_is_kept_with_its_call(show, project):
    files = VirtualFilesystem.in_memory(project)
    with show(files) as shown:
        made = call(shown, "refresh_digest")
        assert made.text.startswith("The digest is new.\n6 files, ")
        (kept,) = shown.session[WorkspaceDigest].all()
        assert kept.body == made.result.value
        assert len(kept.of) == 64
        before = shown.session.snapshot()
        files.write("new.py", "")
        call(shown, "refresh_digest")
        shown.session.restore(before)
        assert shown.session[WorkspaceDigest].all() == (kept,)
