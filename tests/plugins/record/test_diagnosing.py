"""`toolstile doctor` finds out whether calls can be recorded to where the settings say."""

from __future__ import annotations

from toolstile_hookspecs import Severity
from toolstile_plugins.record import RecordSettings, toolstile_diagnose


def test_a_record_has_to_have_its_directory_and_a_folder_is_made(tmp_path):
    [found] = toolstile_diagnose(RecordSettings(file=tmp_path / "calls.jsonl"))
    assert found.severity is Severity.OK
    [found] = toolstile_diagnose(RecordSettings(folder=tmp_path / "away" / "records"))
    assert found.severity is Severity.OK
    [found] = toolstile_diagnose(RecordSettings(file=tmp_path / "away" / "calls.jsonl"))
    assert found.severity is Severity.ERROR
    assert "Make it" in str(found.remedy)
    assert not (tmp_path / "away").exists()
