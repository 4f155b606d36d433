"""The plugins that the documentation writes are such as `toolstile check` has nothing to say of."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from toolstile_cli.main import main

ROOT = Path(__file__).parents[2]

FILES = [
    ("README.md", "house_rules.py"),
    ("docs/start/plugin.md", "wiki.py"),
]

#: Those that are classes, of the blocks down to theirs.
SUITES = [
    ("docs/how-to/plugins.md", "Suite"),
]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory without any configuration."""
    for name in list(os.environ):
        if name.startswith("TOOLSTILE_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def findings(file: Path, capsys: pytest.CaptureFixture[str]) -> list[object]:
    """The contributions of the plugin in a file."""
    status = main(["--plugin", file.name, "check", "--json", file.stem])
    said = capsys.readouterr()
    assert not said.err
    (report,) = map(json.loads, said.out.splitlines())
    found: list[object] = report["findings"]
    assert status == bool(found)
    return found


@pytest.mark.parametrize(("page", "name"), FILES)
def test_a_file_is_clean(
    page: str, name: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / page).read_text("utf-8")
    (source,) = re.findall(rf"<!-- file: {name} -->\n```python\n(.*?)```", text, re.DOTALL)
    (folder / name).write_text(source, "utf-8")

    assert not findings(folder / name, capsys)


@pytest.mark.parametrize(("page", "suite"), SUITES)
def test_a_suite_is_clean(
    page: str, suite: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
    (last,) = (at for at, block in enumerate(blocks) if f"\nclass {suite}:\n" in block)
    # What the page says of a package: there the hooks are plain functions of the module.
    hooks = (
        f"{name} = {suite}().{name}" for name in re.findall(r"def (toolstile_\w+)", blocks[last])
    )
    file = folder / "suite.py"
    file.write_text("\n".join([*blocks[: last + 1], *hooks, ""]), "utf-8")

    assert not findings(file, capsys)
