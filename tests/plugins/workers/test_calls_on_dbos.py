"""A host that names DBOS, in a way that it cannot be used."""

from __future__ import annotations

import pytest

from toolstile import ConfigurationError, Host, Settings

from .conftest import Site

pytestmark = [pytest.mark.slow, pytest.mark.long]


def test_without_a_database_it_is_said_where_to_name_one():
    settings = Settings(plugins={"workers": {"dispatcher": "dbos", "runs": {}}})
    with pytest.raises(ConfigurationError, match=r"\[plugins.database\]"):
        Host(settings=settings).open()


def test_an_option_that_there_is_not_is_refused(dbos_site: Site):
    with pytest.raises(ConfigurationError, match=r"plugins\.workers\.options: pool"):
        dbos_site.host(options={"pool": 1}).open()
