"""The tests that the guides show pass."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[3] / "docs"
GUIDED = ("how-to/ledger", "how-to/testing")


@pytest.mark.slow
@pytest.mark.parametrize("guide", GUIDED)
def test_the_tests_of_the_guides_pass(guide, tmp_path):
    text = (DOCS / f"{guide}.md").read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    source = "\n\n".join(blocks)
    (tmp_path / "test_guide.py").write_text(source, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", "-c", "/dev/null", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout
    written = set(re.findall(r"^(?:def (?=test_)|class (?=Test))(\w+)", source, re.MULTILINE))
    assert written == set(re.findall(r"test_guide\.py::(\w+)", run.stdout))
