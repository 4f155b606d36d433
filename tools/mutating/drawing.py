"""The choice of the mutants to try."""

from __future__ import annotations

import random
from collections.abc import Iterable


def drawn(names: Iterable[str], size: int, seed: int) -> list[str]:
    """So many of them, each with the same chance.

    The same sources and seed give the same ones; a larger sample begins with the smaller one.
    """
    shuffled = sorted(names)
    random.Random(seed).shuffle(shuffled)
    return shuffled[:size]
