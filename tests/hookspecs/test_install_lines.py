"""Every line that installs Toolstile is one that works where it is read."""

from __future__ import annotations

import importlib.metadata
import json
import re
import tomllib
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from toolstile_hookspecs.support import text
from toolstile_hookspecs.support.text import extra_remedy, install_line

ROOT = Path(__file__).parents[2]
PRODUCT = [ROOT / "hookspecs", ROOT / "host", ROOT / "plugins"]
LINE = re.compile(r"(?:python -m |uv )?pip install (?:-e )?(?P<quote>['\"]?)(?P<what>[^'\"`\s]+)")
OURS = re.compile(r"(?P<source>\.|path/to/clone|toolstile)(?:\[(?P<extras>[\w,-]+)\])?")
BARE = re.compile(r"\binstall toolstile\[")


def lines() -> list[tuple[str, str, re.Match[str]]]:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    files = [each for folder in PRODUCT for each in folder.rglob("*") if each.is_file()]
    found: list[tuple[str, str, re.Match[str]]] = []
    for file in [*pages, *files]:
        if file.suffix not in {".pyc", ".png", ".so"} and "__pycache__" not in file.parts:
            shown = str(file.relative_to(ROOT))
            for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
                if BARE.search(line):
                    pytest.fail(f"{shown}: {line.strip()} is not a whole install line")
                for installs in LINE.finditer(line):
                    ours = OURS.fullmatch(installs["what"])
                    if ours:
                        found.append((shown, installs[0] + installs["quote"], ours))
    return found


def test_every_install_line_is_the_functions() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wrong: list[str] = []
    places: dict[tuple[str, str | None], set[bool]] = {}
    for shown, line, ours in lines():
        extras = (ours["extras"] or "").split(",") if ours["extras"] else []
        if ours["source"] == "." and not extras and "-e" in line.split():
            continue  # a plugin's own package
        if line != install_line(*extras, source=ours["source"]):
            wrong.append(f"{shown}: {line}")
        wrong += [
            f"{shown}: no extra {each}"
            for each in extras
            if each not in project["optional-dependencies"]
        ]
        if shown.endswith("support/text.py"):
            continue
        places.setdefault((shown, ours["extras"]), set()).add(ours["source"] == "toolstile")
        if shown.endswith(".py"):
            wrong.append(f"{shown} spells the line itself: {line}")
    assert wrong == []
    # Until the first release, only the line for a clone works.
    assert [place for place, from_index in places.items() if len(from_index) == 1] == []
    assert len(places) > 10


def test_no_page_says_that_another_project_has_the_name() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert [page for page in pages if "another project" in page.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize(
    ("noted", "line"),
    [
        (None, "'toolstile[mcp]'"),
        ({"url": "file://{here}", "dir_info": {}}, "'{here}[mcp]'"),
        ({"url": "file://{here}", "dir_info": {"editable": True}}, "-e '{here}[mcp]'"),
        ({"url": "file://{here}/a%20b.whl", "archive_info": {}}, "'{here}/a b.whl[mcp]'"),
        ({"url": "file://localhost/gone.whl", "archive_info": {}}, "'path/to/clone[mcp]'"),
        (
            {"url": "https://example.com/t.whl", "archive_info": {}},
            "'toolstile[mcp] @ https://example.com/t.whl'",
        ),
        (
            {"url": "https://example.com/t", "vcs_info": {"vcs": "git", "commit_id": "1f2e"}},
            "'toolstile[mcp] @ git+https://example.com/t@1f2e'",
        ),
    ],
)
def test_the_line_is_of_the_place_that_toolstile_came_from(
    noted: dict[str, object] | None, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = str(tmp_path)
    (tmp_path / "a b.whl").touch()
    info = tmp_path / "toolstile-1.dist-info"
    info.mkdir()
    if noted is not None:
        told = json.dumps(noted).replace("{here}", here)
        (info / "direct_url.json").write_text(told, encoding="utf-8")
    monkeypatch.setattr(importlib.metadata, "distribution", lambda _: PathDistribution(info))
    monkeypatch.setattr(text, "find_spec", lambda _: object())
    assert extra_remedy("mcp") == f"Run: python -m pip install {line.replace('{here}', here)}"
    monkeypatch.setattr(text, "find_spec", lambda _: None)
    assert extra_remedy("mcp") == f"Run: uv pip install {line.replace('{here}', here)}"


def test_a_clone_that_is_not_installed_names_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> None:
        raise importlib.metadata.PackageNotFoundError

    monkeypatch.setattr(importlib.metadata, "distribution", missing)
    # A wheel does not lie in a clone.
    is_clone = Path(text.__file__).is_relative_to(ROOT / "hookspecs")
    assert extra_remedy().endswith(f"pip install {ROOT if is_clone else 'path/to/clone'}")
