"""The version of Toolstile that packages need."""

import pytest

from toolstile import _version
from toolstile_cli.commands.new import requirement


@pytest.mark.parametrize(
    ("version", "needed"),
    [
        ("0.1.0", "toolstile>=0.1,<0.2"),
        ("0.2.0rc1", "toolstile>=0.2,<0.3"),
        ("0.9.3.dev4", "toolstile>=0.9,<0.10"),
        ("1.4.2", "toolstile>=1.4,<2"),
    ],
)
def test_a_package_needs_versions_that_keep_their_promises(monkeypatch, version, needed):
    monkeypatch.setattr(_version, "__version__", version)
    assert requirement() == needed
