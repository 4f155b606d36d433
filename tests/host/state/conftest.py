import pytest

from toolstile.state.session import Session


@pytest.fixture
def session():
    return Session(id="s1")
