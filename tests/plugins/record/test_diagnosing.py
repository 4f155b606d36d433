"""`toolyard doctor` finds out whether calls can be recorded to where the settings say."""

from __future__ import annotations

from toolyard_hookspecs import Severity
from toolyard_plugins.record import RecordSettings, toolyard_diagnose


def test_a_record_has_to_have_its_directory_and_a_folder_is_made(tmp_path):
    [found] = toolyard_diagnose(RecordSettings(file=tmp_path / "calls.jsonl"))
    assert found.severity is Severity.OK
    [found] = toolyard_diagnose(RecordSettings(folder=tmp_path / "away" / "records"))
    assert found.severity is Severity.OK
    [found] = toolyard_diagnose(RecordSettings(file=tmp_path / "away" / "calls.jsonl"))
    assert found.severity is Severity.ERROR
    assert "Make it" in str(found.remedy)
    assert not (tmp_path / "away").exists()
