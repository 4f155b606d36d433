"""Limits and credentials of a server in a client's configuration, as `toolstile.toml` has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, cast

Table = Mapping[str, Any]

URLS: Final = ("url", "httpUrl", "serverUrl")
REACHED: Final = ("command", *URLS)
"""The keys of which a server has one."""

_ONLY: Final = ("includeTools", "enabled_tools", "enabledTools", "allowedTools", "allowed_tools")
_WITHOUT: Final = ("excludeTools", "disabled_tools", "disabledTools", "excluded_tools")
_APPROVED: Final = ("autoApprove", "alwaysAllow", "auto_approve", "always_allow")
_SECONDS: Final = {"tool_timeout_sec": "timeout", "startup_timeout_sec": "connect_timeout"}
_CARRIED: Final = frozenset(
    {
        *("command", "args", "env", "cwd", "path", "url", "httpUrl", "serverUrl", "headers"),
        *("http_headers", "env_http_headers", "bearer_token_env_var", "env_vars", "disabled"),
        *("enabled", "environment", *_ONLY, *_WITHOUT, *_APPROVED, *_SECONDS),
    }
)
_OF_NO_ACCOUNT: Final = frozenset({"type", "transport", "source", "name", "description", "dev"})
"""Keys that say nothing of what a server may do, or that say it again."""
_ASKED: Final = frozenset({"prompt", "ask", "always_ask"})


def limits_of(keys: Table) -> dict[str, Any]:
    """Return the keys of a server's table that restrict its tools."""
    made: dict[str, Any] = {}
    for key, names in (("only", _ONLY), ("without", _WITHOUT)):
        listed = [*dict.fromkeys(str(tool) for name in names for tool in _list(keys.get(name)))]
        chosen = _list(keys.get("tools"))
        if key == "only" and "*" not in chosen:
            listed += [str(tool) for tool in chosen if tool not in listed]
        # An empty list lets no tool through; a missing one lets all.
        if listed or (key == "only" and any(keys.get(name) == [] for name in (*names, "tools"))):
            made[key] = listed
    for theirs, ours in _SECONDS.items():
        seconds = keys.get(theirs)
        if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and seconds > 0:
            made[ours] = seconds
    asked = {tool: {"requires_confirmation": True} for tool in _asked_about(keys)}
    return made | ({"tools": asked} if asked else {})


def credentials_of(keys: Table) -> dict[str, str]:
    """Return the headers for which the client names variables of the environment."""
    headers = {
        str(name): f"${{{variable}}}"
        for name, variable in _table(keys.get("env_http_headers")).items()
    }
    token = keys.get("bearer_token_env_var")
    return (
        {"Authorization": f"Bearer ${{{token}}}", **headers} if isinstance(token, str) else headers
    )


def passed_on(keys: Table) -> dict[str, str]:
    """Return the variables of the environment that the client passes on to a program."""
    given = _list(keys.get("env_vars"))
    names = [_table(part).get("name", part) for part in given]
    return {name: f"${{{name}}}" for name in names if isinstance(name, str)}


def lost_of(keys: Table, carried: Table) -> Iterator[str]:
    """Yield a note for what is said of a server and cannot be carried over."""
    said = [keys.get(name) for name in _APPROVED]
    approved = [str(tool) for listed in said for tool in _list(listed)]
    if approved or True in said:
        is_all = "*" in approved or True in said
        asked = "no tool of it" if is_all else f"each tool but {', '.join(approved)}"
        yield (
            f"Its client asks a person about {asked}; here policies decide, and "
            "tools.NAME.requires_confirmation."
        )
    lost = [
        key
        for key, value in keys.items()
        if key not in _CARRIED | _OF_NO_ACCOUNT
        and value not in (None, [], {}, "")
        and not (key == "tools" and ("tools" in carried or isinstance(value, list)))
    ]
    unread = [
        key
        for key in (*_ONLY, *_WITHOUT, *_SECONDS)
        if key in keys and not isinstance(keys[key], (list, int, float))
    ]
    unread += [key for key in ("disabled", "enabled") if not isinstance(keys.get(key, True), bool)]
    if lost or unread:
        yield f"Not carried over from its client: {', '.join([*lost, *unread])}. See to it by hand."


# --- Limits beside the servers


_READ: Final = (
    *("disabledMcpServers", "disabledMcpjsonServers", "excludeMCPServers", "allowMCPServers"),
    *("enabledMcpjsonServers", "mcp.excluded", "mcp.allowed", "permissions.allow"),
)
"""Places beside the servers that are looked at below, or that forbid nothing."""


def mentions(held: object, server: str, place: str = "") -> Iterator[str]:
    """Yield the places of a client's settings, beside its servers, where one is named.

    Args:
        held: The settings, or a part of them.
        server: The name of the server.
        place: The name of the part.
    """
    begins = rf"@?(?:mcp(?:__|[:.(/]))?{re.escape(server)}(?:$|_|[*:/(),])"
    if isinstance(held, str) and re.match(begins, held, re.IGNORECASE):
        is_rule = held.startswith(f"mcp__{server}") and place.endswith(("s.deny", "s.ask"))
        if not is_rule and not place.endswith(_READ):
            yield place
    for item in _list(held):
        yield from mentions(item, server, place)
    for name, value in _table(held).items():
        if not any(key in _table(value) for key in REACHED):
            if re.match(begins, name, re.IGNORECASE):
                yield place
            yield from mentions(value, server, f"{place}.{name}" if place else name)


def switched_off(place: Table, server: str) -> bool:
    """Tell whether a client's settings beside its servers keep it from one of them."""
    mcp = _table(place.get("mcp"))
    off = [
        *_list(place.get("disabledMcpServers")),
        *_list(place.get("disabledMcpjsonServers")),
        *_list(place.get("excludeMCPServers")),
        *_list(mcp.get("excluded")),
        *(rule.removesuffix("__*").removeprefix("mcp__") for rule in _rules(place, "deny")),
    ]
    chosen = place.get("allowMCPServers", mcp.get("allowed"))
    return server in off or (isinstance(chosen, list) and server not in chosen)


def rules_beside(place: Table, server: str) -> dict[str, list[str]]:
    """Return the tools of a server that a client's permissions deny, or ask about."""
    named = re.compile(rf"mcp__{re.escape(server)}(?:__(.+))?")
    found = {
        answer: [named.fullmatch(rule) for rule in _rules(place, answer)]
        for answer in ("deny", "ask")
    }
    return {
        answer: [rule[1] or "*" for rule in rules if rule is not None]
        for answer, rules in found.items()
    }


def _rules(place: Table, answer: str) -> list[str]:
    return [str(rule) for rule in _list(_table(place.get("permissions")).get(answer))]


def _asked_about(keys: Table) -> Iterator[str]:
    for tool, said in _table(keys.get("tools")).items():
        if _table(said).get("approval_mode") in _ASKED:
            yield tool


def _table(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []
