"""The tracked files are fit to be published, and the tests test the installed package."""

import importlib
import os
import re
import sysconfig
from pathlib import Path

import pytest

#: Paths that exist on one machine only, and what a particular machine installs from. Written so
#: that this file does not match itself.
FOREIGN = re.compile(
    rb"|".join(
        (
            rb"(?<![\w.~}])/(?:root|home/\w|Users/\w|work/|opt/)",
            rb"[A-Z]:\\Users\\",
            rb"\bfile:/{3}",
            rb"--(?:(?:extra-)?index-url|find-links|trusted-host)\b",
            rb"\b(?:py[p]i[.]org|python[h]osted[.]org|registry[.]npm)",
        )
    )
)


@pytest.mark.slow
@pytest.mark.packaging
def test_no_tracked_file_names_a_machine_or_a_registry(tree):
    found = [
        f"{name}:{number}: {line.strip()[:120].decode(errors='replace')}"
        for name in sorted(tree.files)
        for number, line in enumerate((tree.root / name).read_bytes().splitlines(), 1)
        if FOREIGN.search(line)
    ]
    assert not found, "\n".join(found)


@pytest.mark.packaging
def test_no_tracked_file_has_both_sides_of_a_conflict(tree):
    sides = re.compile(rb"^(?:<{7}|>{7}) ", re.MULTILINE)
    assert not [name for name in tree.files if sides.search((tree.root / name).read_bytes())]


@pytest.mark.parametrize(
    "line",
    [
        b"cd /" + b"root/x",
        b"/" + b"home/someone/x",
        b"see /" + b"work/main",
        b"/" + b"opt/venv",
        b"--extra-" + b"index-url x",
        b"https://py" + b"pi.org/simple",
    ],
)
def test_the_search_would_find(line):
    assert FOREIGN.search(line)


@pytest.mark.parametrize("line", [b"$HOME/.pyenv", b"a/workspace/b", b"tests/work/x", b"/"])
def test_the_search_lets_pass(line):
    assert not FOREIGN.search(line)


@pytest.mark.skipif("TOX_ENV_NAME" not in os.environ, reason="only tox installs the wheel")
@pytest.mark.parametrize("name", ["toolstile_hookspecs", "toolstile", "toolstile_plugins"])
def test_under_tox_the_tests_test_the_wheel(name):
    file = importlib.import_module(name).__file__
    assert file is not None
    assert Path(sysconfig.get_path("purelib")).resolve() in Path(file).resolve().parents
