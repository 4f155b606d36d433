"""A change runs the tests that it concerns."""

from __future__ import annotations

import subprocess

import changed
import pytest

# The source is the same on every Python: once is enough.
pytestmark = pytest.mark.slow

CONTRACT = ["tests/hookspecs", "tests/host/pipeline"]
WHOLE_HOST = ["tests/hookspecs", "tests/host", "tests/test_house.py", "tests/test_stored_names.py"]
CASES = [
    ([], CONTRACT),
    (["plugins/toolstile_plugins/vfs/glob.py"], [*CONTRACT, "tests/plugins/vfs"]),
    (["tests/plugins/mcp/gateway/test_trust.py"], [*CONTRACT, "tests/plugins/mcp"]),
    (["hookspecs/toolstile_hookspecs/hooks.py"], WHOLE_HOST),
    (["host/toolstile_cli/main.py"], WHOLE_HOST),
    (["README.md", "tools/prose.py"], ["tests/docs", *CONTRACT]),
    (["tests/power/test_power_cuts.py"], [*CONTRACT, "tests/power/test_power_cuts.py"]),
    (["tests/power/power_driver.py"], [*CONTRACT, "tests/power"]),
    (["plugins/toolstile_plugins/gone/module.py"], CONTRACT),
]


@pytest.mark.parametrize(("files", "tests"), CASES)
def test_the_contracts_tests_run_and_those_of_the_changed_files(files, tests):
    assert changed.tests_of(files) == tests


def test_a_shared_module_concerns_the_plugins_that_import_it():
    found = changed.tests_of(["plugins/toolstile_plugins/sqlite_file.py"])
    assert {
        "tests/plugins/ledger",
        "tests/plugins/sessions",
        "tests/plugins/test_sqlite_file.py",
    } <= {*found}
    assert "tests/plugins/rules" not in found


def test_changes_count_before_and_after_their_commit(tmp_path, monkeypatch):
    def git(*arguments: str) -> None:
        who = ("-c", "user.name=A", "-c", "user.email=a@example.org")
        subprocess.run(["git", "-C", str(tmp_path), *who, *arguments], check=True)

    git("init", "-q", "-b", "main")
    git("commit", "-q", "--allow-empty", "-m", "Begin")
    git("checkout", "-q", "-b", "work")
    (tmp_path / "committed.py").touch()
    git("add", ".")
    git("commit", "-q", "-m", "Add a file")
    (tmp_path / "unknown.py").touch()
    monkeypatch.setattr(changed, "ROOT", tmp_path)
    assert changed.changed_files("main") == ["committed.py", "unknown.py"]
    with pytest.raises(SystemExit, match=r"(?s)diff failed: .* Name a revision: -- REV\."):
        changed.changed_files("nowhere")
