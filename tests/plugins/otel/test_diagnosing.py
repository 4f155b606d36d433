"""`toolstile doctor` finds out whether spans can be exported to where the settings say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolstile_hookspecs import Severity
from toolstile_hookspecs.support.text import extra_remedy
from toolstile_plugins.otel import exporters, toolstile_diagnose
from toolstile_plugins.otel.settings import OtelSettings


def found(**settings: Any) -> list[tuple[str, Severity, str]]:
    findings = toolstile_diagnose(OtelSettings(**settings))
    return [(each.subject, each.severity, f"{each.text} {each.remedy}") for each in findings]


def test_where_nothing_is_exported_nothing_is_told() -> None:
    assert found() == []


@pytest.mark.parametrize("where", ["console", "otlp"])
def test_exporters_that_are_there_are_named(where: str) -> None:
    ((subject, severity, told),) = found(trace=where)
    assert (subject, severity) == ("spans", Severity.OK)
    assert f"({where})" in told


def test_the_environment_may_name_one_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin_of_old")
    ((_, severity, told),) = found(trace="env")
    assert severity is Severity.ERROR
    assert "the exporter 'zipkin_of_old' for traces is missing" in told


def test_a_missing_exporter_is_told_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporters, "entry_points", lambda **_: ())
    ((_, severity, told),) = found(trace="otlp")
    assert severity is Severity.ERROR
    assert extra_remedy("observability") in told


def test_a_file_has_to_have_its_directory(tmp_path: Path) -> None:
    file = tmp_path / "spans.jsonl"
    assert found(trace=str(file))[0][1] is Severity.OK
    assert not file.exists()

    ((subject, severity, told),) = found(trace=str(tmp_path / "away" / "spans.jsonl"))
    assert severity is Severity.ERROR
    assert "away" in subject
    assert "Make it" in told
