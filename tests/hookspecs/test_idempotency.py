"""An idempotency strategy has what it needs, and nothing it ignores."""

from datetime import timedelta

import pytest

from toolstile_hookspecs import IdempotencyConfig


@pytest.mark.parametrize(
    "config",
    [
        IdempotencyConfig(),
        IdempotencyConfig(strategy="none"),
        IdempotencyConfig(strategy="params", param_keys=("order_id",)),
        IdempotencyConfig(strategy="custom", key_fn=str),
        IdempotencyConfig(ttl=None, scope="global", on_unknown="retry", on_error="unknown"),
    ],
)
def test_a_sound_one_has_no_faults(config):
    assert config.faults() == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"strategy": "all"}, "strategy 'all' is not one of auto, params, custom, none"),
        ({"strategy": "params"}, "'params' needs param_keys=('field', ...)"),
        ({"param_keys": ("a",)}, "param_keys only go with"),
        ({"strategy": "params", "param_keys": "order"}, "write param_keys=('order',)"),
        ({"strategy": "params", "param_keys": (1,)}, "param_keys (1,) are no names; write"),
        ({"strategy": "params", "param_keys": 5}, "param_keys 5 are no names; write"),
        ({"strategy": "custom"}, "'custom' needs key_fn="),
        ({"strategy": "custom", "key_fn": "id"}, "'custom' needs key_fn="),
        ({"key_fn": str}, "key_fn only goes with"),
        ({"ttl": timedelta(0)}, "use None for never"),
        ({"ttl": 60}, "use None for never"),
        ({"scope": " "}, "scope must not be empty"),
        ({"on_unknown": "ask"}, "on_unknown 'ask' is not one of fail, retry"),
        ({"on_error": "ask"}, "on_error 'ask' is not one of release, unknown"),
    ],
)
def test_each_fault_is_told_with_its_remedy(settings, said):
    (fault,) = IdempotencyConfig(**settings).faults()
    assert said in fault


def test_all_faults_are_told():
    assert len(IdempotencyConfig(strategy="params", key_fn=str, scope="").faults()) == 3
