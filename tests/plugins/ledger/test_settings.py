"""The settings of the table `[plugins.ledger]`."""

import pytest
from pydantic import ValidationError

from toolstile_plugins.ledger import LedgerSettings


@pytest.mark.parametrize("lease", [0, float("nan"), float("inf"), 1e300])
def test_a_lease_has_an_end_that_threads_and_databases_can_wait_for(lease):
    with pytest.raises(ValidationError, match="lease"):
        LedgerSettings(lease=lease)


def test_a_call_may_wait_for_another_until_its_deadline():
    assert LedgerSettings(wait=float("inf")).wait == float("inf")
