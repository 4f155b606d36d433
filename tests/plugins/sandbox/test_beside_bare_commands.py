"""Commands leave in the workspace what they leave in a directory without any sandbox."""

from __future__ import annotations

import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from toolstile import Host, Settings
from toolstile_hookspecs import ToolCall

NAMES = ("a", "b", "dir", "dir/a", "dir/sub", "dir/sub/b", "other", "other/a", "sp ace", "other/é")
names = st.sampled_from(NAMES)
OPERATIONS = st.one_of(
    st.builds("mkdir -p '{}'".format, names),
    st.builds("mkdir -m 700 '{}'".format, names),
    st.builds("echo text >> '{}'".format, names),
    st.builds(": > '{}'".format, names),
    st.builds("rm -r '{}'".format, names),
    st.builds("rm -rf '{0}' && mkdir '{0}' && echo new > '{0}/a'".format, names),
    st.builds("rmdir '{}'".format, names),
    st.builds("mv -T '{}' '{}'".format, names, names),
    st.builds("mv '{}' '{}'".format, names, names),
    # A directory in itself: what is copied depends on the order of its entries.
    st.builds("case '{1}/' in '{0}'/*) ;; *) cp -a '{0}' '{1}';; esac".format, names, names),
    st.builds("ln -s '{}' '{}'".format, names, names),
    st.builds("ln -sfn missing/deep '{}'".format, names),
    st.builds("ln '{}' '{}'".format, names, names),
    # With the rights of its owner: as root, bare commands need none.
    st.builds("[ -L '{1}' ] || chmod {0} '{1}'".format, st.sampled_from(("700", "755")), names),
    st.builds("[ ! -f '{1}' ] || chmod {0} '{1}'".format, st.sampled_from(("600", "644")), names),
    st.builds("touch -h -d @{} '{}'".format, st.integers(1, 10**9), names),
    st.builds("truncate -s 3 '{}'".format, names),
    st.builds("sed -i s/t/T/ '{}'".format, names),
)
SCRIPTS = st.lists(OPERATIONS, min_size=1, max_size=6).map("\n".join)


def tree(root: Path) -> dict[str, tuple[object, ...]]:
    """Return everything that a command can leave in a directory."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if name.startswith(".toolstile"):
            continue
        status = path.lstat()
        if path.is_symlink():
            found[name] = ("link", str(path.readlink()))
        elif path.is_dir():
            found[name] = ("directory", stat.S_IMODE(status.st_mode))
        else:
            content = path.read_bytes()
            found[name] = ("file", stat.S_IMODE(status.st_mode), content)
    return found


def part_hard_links(root: Path) -> None:
    """Make a file of each name of a file: in a workspace no two names are one file."""
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink() and path.stat().st_nlink > 1:
            shutil.copy2(path, root / ".copy")
            (root / ".copy").replace(path)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("backend", ["bubblewrap", "none"])
def test_any_commands_leave_the_same_tree(tmp_path, backend):
    @settings(max_examples=100)
    @given(st.lists(SCRIPTS, min_size=1, max_size=4))
    def leave_the_same(scripts):
        place = Path(tempfile.mkdtemp(dir=tmp_path))
        ours, bare = place / "ours", place / "bare"
        for root in (ours, bare):
            (root / "dir/sub").mkdir(parents=True)
            (root / "a").write_text("text\n")
            (root / "dir/sub/b").write_text("text\n")
        sandbox = {"scratch": str(place / "scratch"), "backend": backend}
        plugins = {"vfs": {"root": str(ours)}, "sandbox": sandbox}
        with Host(settings=Settings(plugins=plugins)) as host, host.executor() as tools:
            for script in scripts:
                command = ["sh", "-c", f"umask 022\n{script}"]
                outcome = tools.dispatch(ToolCall("shell_execute", {"command": command}))
                assert outcome.success, outcome.text
                done = subprocess.run(command, cwd=bare, capture_output=True, check=False)
                part_hard_links(bare)
                assert outcome.result.value.exit_code == done.returncode, outcome.text
                assert tree(ours) == tree(bare)
        shutil.rmtree(place)

    leave_the_same()
