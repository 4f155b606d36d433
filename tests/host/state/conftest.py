import pytest

from toolyard.state.session import Session


@pytest.fixture
def session():
    return Session(id="s1")
