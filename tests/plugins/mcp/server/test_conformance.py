"""The official conformance suite, against a real server over HTTP."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from .conftest import serving

PACKAGE: Final = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
FIXTURES: Final = Path(__file__).with_name("conformance_fixtures.py")
CONFIGURATION: Final = """\
[plugins.vfs]
root = "files"

[plugins.mcp.serve]
workspace_uri = "test://"
"""
FILES: Final = {
    "static-text": b"This is the content of the static text resource.",
    "static-binary": b"\x89PNG\r\n\x1a\n\0",
    "template/123/data": b'{"id": "123"}',
    "watched-resource": b"watched",
}

OWN_QUESTIONS: Final = (
    "A handler asks the client nothing of its own (a sample, its roots, a form): a person is asked "
    "only whether the call may run."
)
TEXT_ONLY: Final = "A section is text, and so are the prompts that are made of it."
NO_LOGS: Final = (
    "What is logged stays in the log of the server: the capability is not declared, and the "
    "protocol has deprecated it."
)
NO_WATCH: Final = "Watching single resources is not declared as a capability."
DENIED: Final = (
    "A call that cannot be confirmed, as the client has no way to ask, is denied with a result "
    "that the model can act on, not with an error of the protocol."
)
NOT_APPLICABLE: Final = {
    "prompts-get-embedded-resource": TEXT_ONLY,
    "prompts-get-with-image": TEXT_ONLY,
    "logging-set-level": NO_LOGS,
    "tools-call-with-logging": NO_LOGS,
    "resources-subscribe": NO_WATCH,
    "resources-unsubscribe": NO_WATCH,
    "tools-call-sampling": OWN_QUESTIONS,
    "tools-call-elicitation": OWN_QUESTIONS,
    "elicitation-sep1034-defaults": OWN_QUESTIONS,
    "elicitation-sep1330-enums": OWN_QUESTIONS,
    "input-required-result-basic-elicitation": OWN_QUESTIONS,
    "input-required-result-basic-sampling": OWN_QUESTIONS,
    "input-required-result-basic-list-roots": OWN_QUESTIONS,
    "input-required-result-request-state": OWN_QUESTIONS,
    "input-required-result-multiple-input-requests": OWN_QUESTIONS,
    "input-required-result-multi-round": OWN_QUESTIONS,
    "input-required-result-non-tool-request": OWN_QUESTIONS,
    "input-required-result-result-type": OWN_QUESTIONS,
    "input-required-result-tampered-state": OWN_QUESTIONS,
    "input-required-result-capability-check": OWN_QUESTIONS,
    "sep-2575-server-rejects-undeclared-capability": DENIED,
    "sep-2575-missing-capability-http-400": DENIED,
}
"""Scenarios and single checks that this server does not mean to pass, and why."""
EXTENSION: Final = "tasks-"
"""Scenarios of an extension, which no revision of the protocol requires, begin like this."""


@pytest.mark.slow
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_every_check_that_applies_passes(npm, tmp_path, revision):
    files = tmp_path / "files"
    for name, content in FILES.items():
        path = files / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (tmp_path / "toolyard.toml").write_text(CONFIGURATION)
    results = tmp_path / "results"
    with serving(plugin=FIXTURES, cwd=tmp_path) as served:
        run = subprocess.run(
            [
                *(npm.program("conformance", PACKAGE), "server", "--url", served.url),
                *("--requirements", revision, "--output-dir", str(results)),
            ],
            env=npm.environment(),
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=170,
            check=False,
        )
    checks = [*_checks(results)]
    failed = [each for each in checks if each.status == "FAILURE"]
    assert len(checks) - len(failed) > ENOUGH, run.stdout + run.stderr
    assert [each for each in failed if not each.names & NOT_APPLICABLE.keys()] == []
    excused = {name for each in failed for name in each.names & NOT_APPLICABLE.keys()}
    tried = {name for each in checks for name in each.names}
    assert (tried & NOT_APPLICABLE.keys()) - excused == set(), "these pass by now"


ENOUGH: Final = 50
"""How many checks pass at least, so that a suite that breaks off is noticed."""


@dataclass(frozen=True)
class Check:
    scenario: str
    name: str
    status: str
    error: str | None

    @property
    def names(self) -> frozenset[str]:
        return frozenset({self.scenario, self.name})


def _checks(results: Path) -> Iterator[Check]:
    for file in sorted(results.glob("server-*/checks.json")):
        # The folder is named after the scenario and the time.
        found = re.fullmatch(r"server-(.+?)-\d{4}-\d\d-\d\dT.*", file.parent.name)
        assert found is not None
        if found[1].startswith(EXTENSION):
            continue
        for each in json.loads(file.read_text()):
            yield Check(found[1], each["id"], each["status"], each.get("errorMessage"))
