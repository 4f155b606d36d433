"""What holds for all tests."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

pytest.register_assert_rewrite("toolyard_hookspecs.testing")

# Machines are noisy: how long an example took says nothing about the code.
settings.register_profile(
    "toolyard", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("toolyard")
