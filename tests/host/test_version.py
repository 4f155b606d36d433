"""What packages write to need this version of Toolyard."""

import pytest

from toolyard import _version


@pytest.mark.parametrize(
    ("version", "needed"),
    [
        ("0.1.0", "toolyard>=0.1,<0.2"),
        ("0.2.0rc1", "toolyard>=0.2,<0.3"),
        ("0.9.3.dev4", "toolyard>=0.9,<0.10"),
        ("1.4.2", "toolyard>=1.4,<2"),
    ],
)
def test_a_package_needs_versions_that_keep_their_promises(monkeypatch, version, needed):
    monkeypatch.setattr(_version, "__version__", version)
    assert _version.requirement() == needed
