"""Addresses and secrets that protect nothing keep the host from opening."""

from __future__ import annotations

import pytest

from toolstile import ConfigurationError, Host, Settings
from toolstile_plugins.webhook.webhook import signature

from .conftest import SECRET

SAFE = "https://approvals.example.org/questions"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"url": "http://approvals.example.org"}, "give an https URL"),
        ({"url": "ftp://localhost"}, "give an https URL"),
        ({"url": "approvals"}, "give a URL such as"),
        ({"url": "https://ada:word@approvals.example.org"}, "give a URL such as"),
        ({"answer_url": "http://shop.example.org"}, "give an https URL"),
        ({"secret": None}, "give a secret as well"),
        ({"secret": "whsec_c2hvcnQ="}, "at least 24 random bytes"),
        ({"secret": "a password of somebody"}, "at least 24 random bytes"),
        ({"headers": {"authorization": "a\nb"}}, "cannot be sent"),
    ],
)
def test_settings_that_do_not_protect_are_refused(settings, told):
    webhook = {"url": SAFE, "secret": SECRET, **settings}
    with pytest.raises(ConfigurationError, match=told) as refused:
        Host(settings=Settings(plugins={"webhook": webhook})).open()
    assert "a password of somebody" not in str(refused.value)


def test_a_webhook_without_an_inbox_is_refused():
    settings = Settings(plugins={"webhook": {"url": SAFE, "secret": SECRET}})
    with pytest.raises(ConfigurationError, match="without an inbox"):
        Host(settings=settings).open()


def test_messages_are_signed_as_the_standard_says():
    """With the example of the standard's own libraries."""
    import base64

    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    given = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body)
    assert given == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
