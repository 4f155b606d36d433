"""The settings, and the messages about wrong ones."""

import pytest
from pydantic import ValidationError
from toolstile_bfcl.settings import ALL_SUITES, Settings


def test_without_a_table_all_suites_start_from_their_defaults():
    settings = Settings()
    assert settings.suites == ALL_SUITES
    assert settings.start == {}
    assert settings.final_state is None


def test_the_start_can_be_a_table_or_a_file(tmp_path):
    start = {"TravelAPI": {"budget_limit": None}}
    file = tmp_path / "start.json"
    file.write_text('{"TravelAPI": {"budget_limit": null}}')
    assert Settings.model_validate({"start": start}).start == start
    assert Settings.model_validate({"start": str(file)}).start == start


@pytest.mark.parametrize("text", ["not JSON", "[]", '{"TravelAPI": 1}'])
def test_a_start_file_of_another_shape_is_named(tmp_path, text):
    file = tmp_path / "start.json"
    file.write_text(text)
    with pytest.raises(ValidationError, match=r"start"):
        Settings.model_validate({"start": str(file)})


def test_a_start_file_that_cannot_be_read_is_told_with_the_reason():
    with pytest.raises(ValidationError, match=r"path of a JSON file \(No such file"):
        Settings.model_validate({"start": "/no/such/file"})


@pytest.mark.parametrize("table", [{"suites": ["Unknown"]}, {"start": 1}, {"begin": {}}])
def test_other_tables_are_refused(table):
    with pytest.raises(ValidationError):
        Settings.model_validate(table)
