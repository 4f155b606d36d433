"""The policy keeps to what every policy has to show."""

import pytest
from toolstile_cedar import policy as module

from toolstile_hookspecs.testing import PolicyContract


class TestPolicy(PolicyContract):
    allowed = (("read_thing", {"name": "a"}), ("write_thing", {"name": "a"}))
    denied = (
        ("write_thing", {"name": "secret/a"}),
        ("delete_thing", {"name": "a"}),
    )

    @pytest.fixture
    def policy(self, policy_of):
        return policy_of(
            'permit (principal, action in Action::"read", resource);\n'
            '@ask("Sure?") permit (principal, action in Action::"write", resource);\n'
            "forbid (principal, action, resource)\n"
            'when { context.params has name && context.params.name like "secret/*" };'
        )

    @pytest.fixture
    def break_it(self, monkeypatch):
        def broken(*arguments):
            raise RuntimeError("Cedar is out of order.")

        return lambda: monkeypatch.setattr(module.cedarpy, "is_authorized", broken)
