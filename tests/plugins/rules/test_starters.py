"""The configurations to start from hold their own tests, and each of their rules has one."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from toolstile_cli.main import main

STARTERS = Path(__file__).parents[3] / "docs" / "examples" / "rules"
NAMES = ["coding-agent", "mail-assistant"]


def policies(name: str) -> list[str]:
    """Return the names of the policies of a starter."""
    return re.findall(r'(?m)^name = "(.+)"', (STARTERS / f"{name}.toml").read_text())


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy the files, as a person does, and go there."""
    folder = tmp_path / "rules"
    shutil.copytree(STARTERS, folder)
    (folder / "project").mkdir()
    monkeypatch.chdir(folder)
    return folder


def status(name: str) -> int:
    return main(["policy", "test", f"{name}.test.toml", "--config", f"{name}.toml"])


@pytest.mark.parametrize("name", NAMES)
def test_its_tests_hold(copied: Path, name: str, capsys: pytest.CaptureFixture[str]):
    assert status(name) == 0, capsys.readouterr().out


def test_what_provenance_does_not_rule_is_said_once(
    copied: Path, capsys: pytest.CaptureFixture[str]
):
    assert status("mail-assistant") == 0
    assert capsys.readouterr().err.count("rules no value under 3 characters") == 1


def test_none_of_their_rules_is_warned_of(copied: Path, capsys: pytest.CaptureFixture[str]):
    assert [status(name) for name in NAMES] == [0, 0]
    assert "has several spellings" not in (told := capsys.readouterr().err)
    assert "a chained command" not in told


@pytest.mark.slow
@pytest.mark.parametrize(("name", "policy"), [(n, p) for n in NAMES for p in policies(n)])
def test_without_a_rule_one_of_its_tests_fails(copied: Path, name: str, policy: str):
    file = copied / f"{name}.toml"
    head, *tables = file.read_text().split("[[policies]]\n")
    rest = [each for each in tables if f'name = "{policy}"\n' not in each]
    assert len(rest) == len(tables) - 1
    file.write_text("[[policies]]\n".join([head, *rest]))
    assert status(name) != 0


def test_the_guide_lists_them():
    guide = (STARTERS.parents[1] / "how-to" / "policies.md").read_text()
    assert all(f"../examples/rules/{name}.toml" in guide for name in NAMES)
