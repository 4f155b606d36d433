"""The built-in policies keep to the contract of policies."""

from __future__ import annotations

import pytest

from toolstile_hookspecs.testing import PolicyContract
from toolstile_plugins.policies import (
    CategoryPolicy,
    QuotaPolicy,
    RateLimitPolicy,
    SequentialDependencyPolicy,
)

pytestmark = pytest.mark.slow

READ = ("read_thing", {"name": "x"})
WRITE = ("write_thing", {"name": "x"})
DELETE = ("delete_thing", {"name": "x"})


class TestCategory(PolicyContract):
    allowed = (READ, WRITE)
    denied = (DELETE,)

    @pytest.fixture
    def policy(self):
        return CategoryPolicy(category={"delete": "deny", "write": "ask"})


class TestOrder(PolicyContract):
    allowed = (READ,)
    denied = (WRITE, DELETE)

    @pytest.fixture
    def policy(self):
        return SequentialDependencyPolicy(
            dependencies={"write_thing": {"read_thing"}, "delete_thing": {"write_thing"}}
        )


class TestQuota(PolicyContract):
    allowed = (READ, DELETE)
    denied = (WRITE,)

    @pytest.fixture
    def policy(self):
        return QuotaPolicy(per_tool={"write_thing": 0})


class TestRate(PolicyContract):
    allowed = (READ,)
    denied = (WRITE,)

    @pytest.fixture
    def policy(self):
        return RateLimitPolicy(max_calls_per_minute=1, tools={"write_thing"})

    @pytest.fixture
    def prepare(self):
        return lambda bench: bench.call("write_thing")
