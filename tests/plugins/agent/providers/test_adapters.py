"""Each adapter keeps to the contract, and its provider sees that it keeps to the protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tests.plugins.agent.providers.providers import NAMES, PROVIDERS, Provider

from toolstile_hookspecs.testing import ProviderAdapterContract

pytestmark = pytest.mark.slow


@pytest.fixture(params=NAMES)
def provider(request: pytest.FixtureRequest) -> Provider:
    return PROVIDERS[request.param]


class TestAdapters(ProviderAdapterContract):
    @pytest.fixture
    def play(self, provider: Provider) -> Iterator[Callable[..., Any]]:
        with ExitStack() as stack:
            yield lambda *script: provider.serve(stack, *script)[0]
