"""The webhook: it posts the questions of the inbox to an endpoint, which answers them.

Settings, `[plugins.webhook]`: see `WebhookSettings`. The inbox has other ways to answer as well, so
configure `approver = "inbox"` and `[plugins.inbox]`, too.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel

from toolstile_hookspecs import Binding, ConfigurationError, HostHandle, hookimpl
from toolstile_hookspecs.support.late_names import late_names
from toolstile_plugins.cli_support import needing
from toolstile_plugins.webhook.settings import WebhookSettings

if TYPE_CHECKING:
    from toolstile_plugins.webhook.webhook import Webhook

__all__ = ["Webhook", "WebhookSettings"]

_NO_INBOX: Final = (
    "[plugins.webhook] url: questions cannot be posted without an inbox. Name its file as path in "
    '[plugins.inbox], and write approver = "inbox".'
)


# Late: few hosts have a webhook.
__getattr__ = late_names(__name__, {"webhook": "Webhook"})


@hookimpl
def toolstile_settings() -> type[BaseModel]:
    return WebhookSettings


@hookimpl
def toolstile_resources(settings: WebhookSettings) -> list[Binding[Any]]:
    """Offer the webhook if an address is configured."""
    if settings.url is None:
        return []
    from toolstile_plugins.webhook.webhook import Webhook  # late: few hosts have a webhook

    return [Binding[Webhook](Webhook, lambda resources: Webhook.made(settings, resources))]


# It closes before the inbox, at which it looks for the last time.
@hookimpl(trylast=True)
def toolstile_lifespan(
    host: HostHandle, settings: WebhookSettings
) -> AbstractAsyncContextManager[object] | None:
    """Deliver the questions of the inbox while the host is open."""
    if settings.url is None:
        return None
    inbox = getattr(host.settings("inbox"), "path", None)
    if inbox is None:
        raise ConfigurationError(_NO_INBOX)
    with needing("[plugins.webhook] needs packages that are not installed.", "policies"):
        from toolstile_plugins.webhook.delivery import delivering
    return delivering(host, settings.url, inbox)
