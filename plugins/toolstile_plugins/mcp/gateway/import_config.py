"""The servers of well-known clients as tables of `toolstile.toml`: `toolstile mcp import`.

Known are `mcpServers` (Claude Desktop, Claude Code, Cursor, Windsurf, Gemini CLI, Cline), `servers`
(VS Code), `context_servers` (Zed), `mcp` (opencode, Crush), `amp.mcpServers` and, in TOML,
`mcp_servers` (Codex). Possible secrets are not printed: a variable of the environment stands for
each.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from toolstile_hookspecs import ConfigurationError
from toolstile_plugins.dialects.parse import items, mapping
from toolstile_plugins.mcp.settings import prefix_of

Table = Mapping[str, Any]

URLS: Final = ("url", "httpUrl", "serverUrl")
REACHED: Final = ("command", *URLS)
"""A server has one of these keys."""

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
_OF_NO_ACCOUNT: Final = frozenset(
    {"type", "transport", "source", "name", "id", "description", "dev"}
)
"""Keys without effect on a server's rights, or that repeat another key."""
_ASKED: Final = frozenset({"prompt", "ask", "always_ask"})


def limits_of(keys: Table) -> dict[str, Any]:
    """Return the keys of a server's table that restrict its tools."""
    made: dict[str, Any] = {}
    for key, names in (("only", _ONLY), ("without", _WITHOUT)):
        listed = [*dict.fromkeys(str(tool) for name in names for tool in items(keys.get(name)))]
        chosen = items(keys.get("tools"))
        if key == "only" and "*" not in chosen:
            listed += [str(tool) for tool in chosen if tool not in listed]
        # An empty list lets no tool through; a missing one lets all.
        if listed or (key == "only" and any(keys.get(name) == [] for name in (*names, "tools"))):
            made[key] = listed
    for theirs, ours in _SECONDS.items():
        seconds = keys.get(theirs)
        if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and seconds > 0:
            made[ours] = seconds
    asked = {
        tool: {"requires_confirmation": True}
        for tool, said in mapping(keys.get("tools")).items()
        if mapping(said).get("approval_mode") in _ASKED
    }
    return made | ({"tools": asked} if asked else {})


def lost_of(keys: Table, carried: Table) -> Iterator[str]:
    """Yield a note for each setting of a server that cannot be carried over."""
    said = [keys.get(name) for name in _APPROVED]
    approved = [str(tool) for listed in said for tool in items(listed)]
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
        for key in ("env_vars", *_ONLY, *_WITHOUT, *_SECONDS)
        if not isinstance(keys.get(key, 0), (list, int, float))
        or not all(isinstance(each, (str, Mapping)) for each in items(keys.get(key)))
    ]
    unread += [key for key in ("disabled", "enabled") if not isinstance(keys.get(key, True), bool)]
    if lost or unread:
        yield f"Not imported: {', '.join([*lost, *unread])}. Configure these by hand."


# --- Limits beside the servers


_READ: Final = (
    *("disabledMcpServers", "disabledMcpjsonServers", "excludeMCPServers", "allowMCPServers"),
    *("enabledMcpjsonServers", "mcp.excluded", "mcp.allowed", "permissions.allow"),
)
"""Places beside the servers that are handled below, or that forbid nothing."""


def mentions(held: object, server: str, place: str = "") -> Iterator[str]:
    """Yield the places of a client's settings, beside its servers, that name a server.

    `held` is the settings, or the part of them named `place`.
    """
    begins = rf"@?(?:mcp(?:__|[:.(/]))?{re.escape(server)}(?:$|_|[*:/(),])"
    if isinstance(held, str) and re.match(begins, held, re.IGNORECASE):
        is_rule = held.startswith(f"mcp__{server}") and place.endswith(("s.deny", "s.ask"))
        if not is_rule and not place.endswith(_READ):
            yield place
    for item in items(held):
        if not any(key in mapping(item) for key in REACHED):
            yield from mentions(item, server, place)
    for name, value in mapping(held).items():
        if not any(key in mapping(value) for key in REACHED):
            if re.match(begins, name, re.IGNORECASE):
                yield place
            yield from mentions(value, server, f"{place}.{name}" if place else name)


def switched_off(place: Table, server: str) -> bool:
    """Tell whether a client's settings beside its servers disable a server."""
    mcp = mapping(place.get("mcp"))
    off = [
        *items(place.get("disabledMcpServers")),
        *items(place.get("disabledMcpjsonServers")),
        *items(place.get("excludeMCPServers")),
        *items(mcp.get("excluded")),
        *(rule.removesuffix("__*").removeprefix("mcp__") for rule in _rules(place, "deny")),
    ]
    chosen = place.get("allowMCPServers", mcp.get("allowed"))
    return server in off or (isinstance(chosen, list) and server not in chosen)


def _rules(place: Table, answer: str) -> list[str]:
    return [str(rule) for rule in items(mapping(place.get("permissions")).get(answer))]


TABLES: Final = ("mcpServers", "servers", "context_servers", "mcp_servers", "amp.mcpServers", "mcp")
_REFERENCE: Final = re.compile(r"^\$\{(?:env:)?[A-Za-z_][A-Za-z0-9_]*\}$")
_OTHERWISE: Final = re.compile(r"\$([A-Za-z_]\w*)|\{env:([A-Za-z_]\w*)\}")
"""A variable of the environment, as Gemini CLI and opencode write it."""
_SECRET: Final = re.compile(
    r"token|secret|passw|key|auth|credential|cookie|signature|^sig$", re.IGNORECASE
)
_TOKEN: Final = re.compile(
    r"(?:gh[oprsu]_|github_pat_|glpat-|sk-|xox[a-z]-|hf_|npm_|AKIA|AIza|eyJ)[\w.-]{8,}"
)
"""The prefixes of the tokens of well-known services."""
HEADER_FLAGS: Final = frozenset({"-H", "--header"})
_UNKNOWN: Final = re.compile(
    r"\$\{(?!(?:env:)?[A-Za-z_][A-Za-z0-9_]*\})[^}]*\}|\$\{workspaceFolder\}"
    r"|\$[A-Za-z_]\w*|(?<!\$)\{(?:env|file):[^}]*\}"
)
_IS_HTTP: Final = re.compile(r"https?:|(?![A-Za-z][A-Za-z0-9+.-]*:)", re.IGNORECASE)
"""A URL over HTTP, or one whose scheme a variable has."""
_COMMENT: Final = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING: Final = re.compile(r'"(?:\\.|[^"\\])*"|,(?=\s*[}\]])', re.DOTALL)
_INK: Final = re.compile(r"\S")
_BARE: Final = re.compile(r"[A-Za-z0-9_-]+")


@dataclass
class Imported:
    """A server of a client's configuration."""

    name: str
    keys: dict[str, Any]
    variables: list[str] = field(default_factory=list[str])  # stand for values that are not printed
    notes: list[str] = field(default_factory=list[str])  # settings that could not be imported


def print_tables(
    file: Path,
    write: Callable[[Mapping[str, Any]], None] | None,
    *,
    with_values: bool,
    configured: Iterable[str] = (),
) -> int:
    """Print the servers of a client's configuration; returns the exit status.

    `write` takes each as JSON, None prints tables. Possible secrets are printed only with
    `with_values`, and servers that are `configured` already are not declared again.
    """
    found = list(_distinct(read_servers(file, with_values=with_values), configured))
    if write is None:
        sys.stdout.write("\n\n".join(as_toml(server) for server in found) + "\n")
    else:
        for server in found:
            told = {"variables": server.variables, "notes": server.notes}
            write({"server": server.name, **server.keys, **told})
    return 0


def read_servers(file: Path, *, with_values: bool = False) -> list[Imported]:
    """Return the servers of a client's configuration, JSON (with comments) or TOML.

    Raises `ConfigurationError` if the file cannot be read, or has no servers.
    """
    if file.suffix in {".yaml", ".yml"}:
        raise ConfigurationError(f"{file} is YAML, which is not read here. Convert it to JSON.")
    try:
        text = file.read_text("utf-8-sig")
        held: Any = tomllib.loads(text) if file.suffix == ".toml" else json.loads(blanked(text))
    except (OSError, ValueError, RecursionError) as error:
        msg = f"{file} cannot be read: {_reason(error)}. Name a client's file, such as .mcp.json."
        raise ConfigurationError(msg) from error
    servers = list(_servers(held))
    if not servers:
        raise ConfigurationError(f"{file} has no servers: none of {', '.join(TABLES)} is in it.")
    found = [_imported(name, keys, with_values=with_values) for name, keys in servers]
    for server in found:
        if server.keys and (places := list(dict.fromkeys(mentions(held, server.name)))):
            told = ", ".join(places)
            server.notes.append(
                f"Its client has more settings for it in {told}. Configure these by hand."
            )
    return found


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    form = "TOML" if isinstance(error, tomllib.TOMLDecodeError) else "JSON"
    return f"it is not {form} ({error})"


def as_toml(server: Imported) -> str:
    """Return the table of a server, with the steps that are left to do."""
    lines = [f"# {''.join(map(_seen, note))}" for note in server.notes]
    if not server.keys:
        return "\n".join(lines)
    if server.variables:
        lines.append(f"# Set in the environment: {', '.join(server.variables)}.")
    lines.append(f"[plugins.mcp.servers.{_key(server.name)}]")
    lines += [f"{_key(name)} = {_value(value)}" for name, value in server.keys.items()]
    return "\n".join(lines)


def _distinct(servers: Iterable[Imported], configured: Iterable[str]) -> Iterator[Imported]:
    """Leave out each server whose prefix a configured or an earlier server has."""
    there = {prefix_of(name): name for name in configured}
    before: dict[str, str] = {}
    for server in servers:
        prefix, name = prefix_of(server.name), json.dumps(server.name)
        if not server.keys:
            yield server
        elif prefix in there:
            called = "" if there[prefix] == server.name else f", as {json.dumps(there[prefix])}"
            note = f"{name} is configured already{called}; it is left out."
            yield Imported(server.name, {}, notes=[note])
        elif prefix in before:
            note = (
                f"{name} has the same prefix as {json.dumps(before[prefix])}; it is left out. "
                "Rename it in the client, or write its table here under another name."
            )
            yield Imported(server.name, {}, notes=[note])
        else:
            before[prefix] = server.name
            yield server


Place = tuple[str | int, ...]
"""The keys and indices that lead to a part of a document."""


def servers_in(held: object) -> Iterator[tuple[str, Place, Mapping[str, Any], Mapping[str, Any]]]:
    """Yield the name, place, keys and holder of each server, also of single projects."""
    projects = mapping(mapping(held).get("projects"))
    for place in ((), ("mcp",), *(("projects", project) for project in projects)):
        holder = mapping(held)
        for key in place:
            holder = mapping(holder.get(key))
        for table in TABLES:
            # A client has its servers by name, or in a list; null or a text is an empty table.
            servers = holder.get(table)
            found: list[tuple[str | int, Any]]
            found = [*mapping(servers).items(), *enumerate(items(servers))]
            for at, given in found:
                keys = mapping(given)
                name = at if isinstance(at, str) else keys.get("name") or keys.get("id") or at + 1
                if table != "mcp" or any(each in keys for each in REACHED):
                    yield str(name), (*place, table, at), keys, holder


def _servers(held: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield each server once, with its client's rules on it."""
    table = {"servers": cast("object", held)} if isinstance(held, list) else mapping(held)
    seen: list[tuple[str, object]] = []
    for server, _, keys, holder in servers_in(table):
        if (server, keys) not in seen:
            seen.append((server, keys))
            yield server, _with_rules(server, keys, table, holder)


def _with_rules(
    server: str, keys: Mapping[str, Any], *places: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return a server's table with the settings that its client has elsewhere."""
    made = {**keys}
    for place in places:
        if switched_off(place, server):
            made["disabled"] = True
        # A client's permissions deny tools of a server, or ask about them.
        named = re.compile(rf"mcp__{re.escape(server)}(?:__(.+))?")
        found = {
            answer: [named.fullmatch(rule) for rule in _rules(place, answer)]
            for answer in ("deny", "ask")
        }
        rules = {
            answer: [rule[1] or "*" for rule in rules if rule is not None]
            for answer, rules in found.items()
        }
        if rules["deny"]:
            made["excludeTools"] = [*made.get("excludeTools", ()), *rules["deny"]]
        if rules["ask"]:
            asked = {tool: {"approval_mode": "ask"} for tool in rules["ask"]}
            made["tools"] = {**mapping(made.get("tools")), **asked}
    return made


def _imported(name: str, keys: Mapping[str, Any], *, with_values: bool) -> Imported:  # noqa: C901 - a case for each key
    made = Imported(name, {})
    url = next((keys[key] for key in URLS if isinstance(keys.get(key), str)), None)
    inner, args = keys.get("command"), keys.get("args")
    is_ours = isinstance(inner, str) and Path(inner).stem == "toolstile"
    if is_ours and isinstance(args, list) and "mcp" in args:
        made.notes.append(
            f"{json.dumps(name)} is Toolstile itself, which is not put behind itself."
        )
        return made
    if url is not None and not _IS_HTTP.match(url):
        way = f"is reached by {url.partition(':')[0]}, which is not spoken here"
        made.notes.append(f"{json.dumps(name)} {way}; it is left out.")
        return made
    hide = _Hiding(made, with_values=with_values)
    # Zed puts the program into a separate table.
    if isinstance(inner, Mapping):
        table = cast("Mapping[str, Any]", inner)
        keys = {**keys, **table, "command": table.get("path")}
    if isinstance(inner, list) and inner:
        program, *args = map(str, cast("list[object]", inner))
        keys = {**keys, "command": program, "args": [*args, *keys.get("args", ())]}
    if url is not None:
        made.keys["url"] = hide.in_url(url)
        sent = {**mapping(keys.get("http_headers")), **mapping(keys.get("headers"))}
        _take_texts(made, "headers", sent, hide)
        # The client may name variables of the environment for its credentials.
        token = keys.get("bearer_token_env_var")
        headers = {"Authorization": f"Bearer ${{{token}}}"} if isinstance(token, str) else {}
        named = mapping(keys.get("env_http_headers"))
        headers |= {header: f"${{{variable}}}" for header, variable in named.items()}
        if headers:
            made.keys["headers"] = {**made.keys.get("headers", {}), **headers}
    elif isinstance(keys.get("command"), str):
        _take_program(made, keys, hide)
    else:
        made.notes.append(f"{json.dumps(name)} has neither a command nor a url; it is left out.")
        return made
    if keys.get("type") == "sse":
        made.notes.append("It uses the transport of 2024 (sse), which is not spoken here.")
    if keys.get("disabled") is True or keys.get("enabled") is False:
        made.keys["enabled"] = False
    made.keys.update(limits_of(keys))
    made.notes += lost_of(keys, made.keys)
    strange = dict.fromkeys(_UNKNOWN.findall(json.dumps(made.keys)))
    if strange:
        told = ", ".join(map(json.dumps, strange))
        made.notes.append(f"Only the client can fill these in; write them out: {told}.")
    return made


def _take_program(made: Imported, keys: Mapping[str, Any], hide: _Hiding) -> None:
    made.keys["command"] = keys["command"]
    given: object = keys.get("args") or []
    if not isinstance(given, list):
        made.notes.append("Its args are not a list, and are left out; write them as one.")
        given = []
    args = cast("list[object]", given)
    texts = [str(each) for each in args if isinstance(each, (str, int, float))]
    if len(texts) < len(args):
        made.notes.append("Some of its args are not texts, and are left out. Add them by hand.")
    if texts:
        made.keys["args"] = hide.in_args(texts)
    told = {**mapping(keys.get("environment")), **mapping(keys.get("env"))}
    _take_texts(made, "env", told, hide)
    if isinstance(keys.get("cwd"), str):
        made.keys["cwd"] = keys["cwd"]
    # The client may pass variables of its environment on to the program.
    names = [mapping(part).get("name", part) for part in items(keys.get("env_vars"))]
    if passed := {name: f"${{{name}}}" for name in names if isinstance(name, str)}:
        made.keys["env"] = {**passed, **made.keys.get("env", {})}


def _take_texts(made: Imported, key: str, table: object, hide: _Hiding) -> None:
    texts = {name: hide.value(name, str(value)) for name, value in mapping(table).items()}
    if texts:
        made.keys[key] = texts


class _Hiding:
    """Replaces possible secrets by variables, unless values are wanted."""

    def __init__(self, made: Imported, *, with_values: bool) -> None:
        self._made = made
        self._with_values = with_values

    def value(self, name: str, text: str) -> str:
        if variable := _OTHERWISE.fullmatch(text):
            return f"${{{variable[1] or variable[2]}}}"
        if self._with_values or not text or _REFERENCE.match(text):
            return text
        scheme, _, rest = text.partition(" ")
        if rest and scheme.lower() in {"bearer", "basic", "token"}:
            return f"{scheme} {self.value(name, rest)}"
        return self._variable(name)

    def in_args(self, args: Sequence[str]) -> list[str]:
        if self._with_values:
            return [*args]
        shown: list[str] = []
        flag: str | None = None
        last = ""
        for argument in args:
            name, equals, value = argument.partition("=")
            if flag is not None and not argument.startswith("-"):
                shown.append(self.value(flag, argument))
            elif equals and _SECRET.search(name):
                shown.append(f"{name}={self.value(name, value)}")
            elif flag is None and last in HEADER_FLAGS:
                header, colon, value = argument.partition(":")
                plain = value.lstrip()
                space = value[: len(value) - len(plain)]
                shown.append(f"{header}{colon}{space}{self.value(header, plain)}")
            elif _TOKEN.fullmatch(argument):
                shown.append(self._variable("secret"))
            else:
                shown.append(self.in_url(argument) if "://" in argument else argument)
            last = argument
            is_flag = argument.startswith("-") and not equals
            flag = name if is_flag and _SECRET.search(name) else None
        return shown

    def in_url(self, url: str) -> str:
        if self._with_values:
            return url
        try:
            parts = urlsplit(url)
            query = parse_qsl(parts.query, keep_blank_values=True)
        except ValueError:
            return url
        if "@" in parts.netloc:
            hidden = self._variable("userinfo")
            parts = parts._replace(netloc=f"{hidden}@{parts.netloc.rpartition('@')[2]}")
        shown = [
            (name, self.value(name, value) if _SECRET.search(name) else value)
            for name, value in query
        ]
        if shown != query:
            parts = parts._replace(query=urlencode(shown, safe="${}:"))
        return urlunsplit(parts)

    def _variable(self, name: str) -> str:
        plain = re.sub(r"\W+", "_", name).strip("_").upper()
        if not _BARE.fullmatch(name) or "-" in name or not name.isupper():
            plain = f"{re.sub(r'[^A-Za-z0-9]+', '_', self._made.name).upper()}_{plain}"
        variable = plain if plain[:1].isalpha() else f"MCP_{plain}"
        if variable not in self._made.variables:
            self._made.variables.append(variable)
        return f"${{{variable}}}"


def blanked(text: str) -> str:
    """Return JSON with blanks for the comments and trailing commas that some clients allow."""

    def kept(found: re.Match[str]) -> str:
        return found[0] if found[0].startswith('"') else _INK.sub(" ", found[0])

    return _TRAILING.sub(kept, _COMMENT.sub(kept, text))


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _value(name)


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        table = cast("Mapping[str, object]", value)
        return (
            f"{{ {', '.join(f'{_key(name)} = {_value(item)}' for name, item in table.items())} }}"
        )
    if isinstance(value, list):
        return f"[{', '.join(_value(item) for item in cast('list[object]', value))}]"
    # A JSON string is a TOML string, except for invisible characters.
    return "".join(map(_seen, json.dumps(value, ensure_ascii=False)))


def _seen(character: str) -> str:
    if character.isprintable():
        return character
    is_character = not "\ud800" <= character <= "\udfff"
    return f"\\U{ord(character):08x}" if is_character else "\ufffd"
