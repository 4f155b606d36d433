"""The workspace's tools keep to the contract of suites on the disk."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from toolstile_hookspecs.testing import ToolSuiteContract
from toolstile_plugins import vfs


def app(size: int) -> str:
    """Return the file that the examples speak of."""
    lines = [""] * 90
    lines[11] = "def main() -> int:"
    lines[40:42] = ["import os", "import sys"]
    lines[89] = "#" * (size - len("\n".join(lines)) - 1)
    return "\n".join(lines) + "\n"


FILES = {
    "list_directory": {"docs/index.md": "x" * 1200, "docs/guides/first.md": "x"},
    "glob_files": {"src/app.py": app(840)},
    "grep_files": {"src/app.py": app(840)},
    "read_file": {"src/app.py": app(840)},
    "edit_file": {"app.ini": "a\nb\n" + f"debug = true{'#' * 102}\n"},
    "delete_file": {f"build/{number}.o": "x" for number in range(12)},
    "copy_file": {"config/app.ini": "x"},
    "move_file": {f"doc/{number}.md": "x" for number in range(3)},
    "write_file": {},
}


@pytest.mark.slow
class TestWorkspace(ToolSuiteContract):
    @pytest.fixture
    def plugin(self):
        return vfs

    @pytest.fixture
    def folder(self, tmp_path) -> Path:
        folder = tmp_path / "workspace"
        folder.mkdir()
        return folder

    @pytest.fixture
    def options(self, folder):
        return {"settings": {"vfs": {"root": str(folder)}}}

    @pytest.fixture
    def prepare(self, folder):
        def prepare(bench, tool):
            for path in folder.glob("[!.]*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            for name, text in FILES[tool.name].items():
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            if tool.name == "edit_file":
                assert bench.call("read_file", path="app.ini").success

        return prepare

    @pytest.fixture
    def outside(self, folder):
        return lambda bench: [
            (path, path.is_dir() or path.read_text("utf-8"))
            for path in sorted(folder.rglob("[!.]*"))
            if ".toolstile" not in path.parts
        ]
