"""Every setting is in the guide."""

from __future__ import annotations

from pathlib import Path

import pytest

from toolstile import Settings

DOCS = Path(__file__).parents[2] / "docs"
NOT_WRITTEN = {"path", "plugins", "policies", "policy", "tools", "variables"}


def test_every_setting_is_in_the_guide(subtests: pytest.Subtests) -> None:
    for field in [*Settings.model_fields]:
        with subtests.test(field=field):
            text = (DOCS / "guides" / "configuration.md").read_text(encoding="utf-8")
            assert field in NOT_WRITTEN or f"{field} =" in text
