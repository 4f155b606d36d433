"""The names of the host, and the version that packages need of it."""

import pytest

import toolstile
from toolstile import _version


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
    assert _version.requirement() == needed


def test_every_name_of_the_contract_is_one_of_the_host():
    assert {"MarkdownSection", "Tool", "hookimpl"} <= set(dir(toolstile))
    assert not {"errors", "tools"} & set(dir(toolstile))
    assert all(getattr(toolstile, name) is not None for name in dir(toolstile))
