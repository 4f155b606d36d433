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


def test_each_fault_is_told_with_its_remedy(subtests):
    for settings, said in [
        ({"strategy": "all"}, "strategy is 'all': input should be 'auto', 'params', 'custom'"),
        ({"strategy": "params"}, "'params' needs param_keys=('field', ...)"),
        ({"param_keys": ("a",)}, "param_keys only goes with"),
        (
            {"strategy": "params", "param_keys": "order"},
            "param_keys is 'order': input should be a valid tuple",
        ),
        (
            {"strategy": "params", "param_keys": (1,)},
            "param_keys[0] is 1: input should be a valid string",
        ),
        ({"strategy": "params", "param_keys": 5}, "param_keys is 5: input should be a valid tuple"),
        ({"strategy": "custom"}, "'custom' needs key_fn="),
        ({"strategy": "custom", "key_fn": "id"}, "key_fn is 'id': input should be callable"),
        ({"key_fn": str}, "key_fn only goes with"),
        ({"ttl": timedelta(0)}, "use None for never"),
        ({"ttl": 60}, "ttl is 60: input should be a valid timedelta"),
        ({"scope": " "}, "scope is empty; use"),
        ({"on_unknown": "ask"}, "on_unknown is 'ask': input should be 'fail' or 'retry'"),
        ({"on_error": "ask"}, "on_error is 'ask': input should be 'release' or 'unknown'"),
    ]:
        with subtests.test(settings=settings, said=said):
            (fault,) = IdempotencyConfig(**settings).faults()
            assert said in fault


def test_all_faults_are_told():
    assert len(IdempotencyConfig(strategy="params", key_fn=str, scope="").faults()) == 3
