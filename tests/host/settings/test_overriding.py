"""Values given on the command line win over the file."""

import pytest

from toolstile.settings import Settings
from toolstile.settings.sources import overridden
from toolstile_hookspecs import ConfigurationError

SETTINGS = Settings(timeout=3, plugins={"work-shop": {"root": "a", "deep": {"x": 1, "y": 2}}})


def test_a_hosts_key_and_a_plugins_key_are_replaced_and_the_rest_stays():
    changed = overridden(SETTINGS, {"approver": "desk", "plugins.work_shop.deep.x": 9})
    assert changed.approver == "desk"
    assert changed.timeout == 3
    assert changed.plugins["work-shop"] == {"root": "a", "deep": {"x": 9, "y": 2}}
    assert SETTINGS.plugins["work-shop"]["deep"] == {"x": 1, "y": 2}


def test_messages_name_the_command_line_as_the_source():
    changed = overridden(SETTINGS, {"plugins.other.mode": "x"})
    assert changed.source_of("plugins.other.mode") == "the command line"


@pytest.mark.parametrize("key", ["tiemout", "block", "plugin_files", "plugins.x.enabled"])
def test_a_key_that_is_unknown_or_too_late_is_refused(key):
    with pytest.raises(ConfigurationError, match=r"the command line"):
        overridden(SETTINGS, {key: ["x"]})


def test_a_value_that_does_not_fit_is_refused():
    with pytest.raises(ConfigurationError, match="timeout"):
        overridden(SETTINGS, {"timeout": -1})
