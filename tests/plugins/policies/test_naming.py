"""Which tools a policy means."""

from __future__ import annotations

import pytest

from toolstile_plugins.policies import (
    CategoryPolicy,
    QuotaPolicy,
    RateLimitPolicy,
    ReadBeforeWritePolicy,
    SequentialDependencyPolicy,
)


@pytest.mark.parametrize(
    ("policy", "names"),
    [
        (CategoryPolicy(category={"write": "deny"}), set()),
        (CategoryPolicy(category={"write": "deny"}, tools={"api"}), {"api"}),
        (RateLimitPolicy(max_calls=1), set()),
        (RateLimitPolicy(max_calls=1, tools={"api"}), {"api"}),
        (QuotaPolicy(max_calls=1), set()),
        (QuotaPolicy(max_calls=1, tools={"api"}, per_tool={"letter": 1}), {"api", "letter"}),
        (SequentialDependencyPolicy(dependencies={"c": {"a", "b"}}), {"a", "b", "c"}),
        (ReadBeforeWritePolicy(), set()),
        (
            ReadBeforeWritePolicy(
                read_tools={"show"}, write_tools={"save", "edit_file"}, paths={"rename": ("a",)}
            ),
            {"show", "save", "rename"},
        ),
    ],
)
def test_a_policy_says_by_which_names_it_rules_but_for_its_defaults(policy, names):
    assert policy.governed == names
