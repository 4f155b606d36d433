"""The answers of single policies to a call, for those who explain what decides on it."""

from __future__ import annotations

from typing import NamedTuple

from toolstile_hookspecs.policies import Verdict


class PolicyAnswer(NamedTuple):
    """The answer of one policy, also where it has nothing to say.

    Args:
        policy: The name of the policy.
        verdict: The verdict; None where it says nothing.
        why: The reason, or why it says nothing, as far as the policy tells.
        in_shadow: Whether it decides nothing.
    """

    policy: str
    verdict: Verdict | None
    why: str = ""
    in_shadow: bool = False
