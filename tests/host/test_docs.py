"""The reference names every hook, and every setting is in the guide."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path

import pytest

from toolyard import Settings
from toolyard_hookspecs import hooks

DOCS = Path(__file__).parents[2] / "docs"
HOOKS = sorted(name for name in vars(hooks) if name.startswith("toolyard_"))
NOT_WRITTEN = {"path", "plugins", "policies", "variables"}


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_is_in_the_reference_with_its_arguments(name: str) -> None:
    text = (DOCS / "reference" / "hooks.md").read_text(encoding="utf-8")
    arguments = ", ".join(inspect.signature(getattr(hooks, name)).parameters)
    assert f"`{name}({arguments})`" in text


@pytest.mark.parametrize("field", [each.name for each in dataclasses.fields(Settings)])
def test_every_setting_is_in_the_guide(field: str) -> None:
    text = (DOCS / "guides" / "configuration.md").read_text(encoding="utf-8")
    assert field in NOT_WRITTEN or f"{field} =" in text
