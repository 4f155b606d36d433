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
    "A handler asks the client nothing of its own (a sample, its roots, a form to fill in): a "
    "person is asked once, with nothing to fill in, whether the call may run."
)
CALLS_ONLY: Final = "Only calls need approval, so nothing is asked about a prompt."
TEXT_ONLY: Final = "A section is text, and so are the prompts that are made of it."
NO_LOGS: Final = (
    "What is logged stays in the log of the server: the capability is not declared, and the "
    "protocol has deprecated it."
)
NO_WATCH: Final = "Watching single resources is not declared as a capability."
NEVER_SAMPLES: Final = (
    "It is tried with a tool that needs the capability `sampling`, and no tool can. What needs a "
    "person whom the client cannot ask is denied with a result that the model can act on."
)
STATE_ONLY: Final = (
    "An answer counts only together with the request state, so that nobody approves a call that "
    "they were not asked about; here it comes without, and the question is asked again."
)
NO_RESUMING: Final = (
    "A stream of the older era is not resumed, so it needs neither a first event nor a time after "
    "which to connect again; both are recommended, not required."
)
NOT_APPLICABLE: Final = {
    "prompts-get-embedded-resource": TEXT_ONLY,
    "prompts-get-with-image": TEXT_ONLY,
    "logging-set-level": NO_LOGS,
    "tools-call-with-logging": NO_LOGS,
    "resources-subscribe": NO_WATCH,
    "resources-unsubscribe": NO_WATCH,
    "server-sse-priming-event": NO_RESUMING,
    "server-sse-retry-field": NO_RESUMING,
    "tools-call-sampling": OWN_QUESTIONS,
    "elicitation-sep1034-defaults": OWN_QUESTIONS,
    "elicitation-sep1330-enums": OWN_QUESTIONS,
    "input-required-result-basic-elicitation": OWN_QUESTIONS,
    "input-required-result-basic-sampling": OWN_QUESTIONS,
    "input-required-result-basic-list-roots": OWN_QUESTIONS,
    "input-required-result-multiple-input-requests": OWN_QUESTIONS,
    "input-required-result-multi-round": OWN_QUESTIONS,
    "input-required-result-non-tool-request": CALLS_ONLY,
    "input-required-result-ignore-extra-params": STATE_ONLY,
    "input-required-result-capability-check": NEVER_SAMPLES,
    "sep-2575-server-rejects-undeclared-capability": NEVER_SAMPLES,
    "sep-2575-missing-capability-http-400": NEVER_SAMPLES,
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
    (tmp_path / "toolstile.toml").write_text(CONFIGURATION)
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
    failed = [each for each in checks if each.status in FAILED]
    assert len(checks) - len(failed) > ENOUGH, run.stdout + run.stderr
    assert [each for each in failed if not each.names & NOT_APPLICABLE.keys()] == []
    excused = {name for each in failed for name in each.names & NOT_APPLICABLE.keys()}
    tried = {name for each in checks for name in each.names}
    assert (tried & NOT_APPLICABLE.keys()) - excused == set(), "these pass by now"


FAILED: Final = frozenset({"FAILURE", "WARNING"})
"""Recommendations have to hold as well, else they are warnings."""
ENOUGH: Final = 50
"""The least checks that pass, so that a suite that breaks off is noticed."""


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
