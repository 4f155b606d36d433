"""Examples of the built-in commands, as their help shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EXAMPLES_OF: Final[Mapping[str, Mapping[str, str]]] = {
    "run": {
        "toolyard run --example": "run a session that comes with Toolyard",
        "toolyard run session.jsonl": "run recorded calls, one JSON object a line",
        "toolyard run chat.json --json": "run a recorded conversation, answer in JSON",
        "toolyard run session.jsonl --parallel": "dispatch all calls at once",
        "toolyard run session.jsonl --dry-run": "show what they would change, keep nothing",
    },
    "call": {
        """toolyard call list_directory '{"path": "."}' --workspace .""": "make one call",
        "toolyard call list_orders --example": "call a tool of an example",
        "toolyard call list_directory - < arguments.json": "read the arguments from standard input",
    },
    "tools": {
        "toolyard tools": "list the tools with their arguments",
        "toolyard tools --schema openai": "print them as a provider takes them",
        "toolyard tools --plugin room.py --json": "list also those of a single file, as JSON",
    },
    "prompt": {
        "toolyard prompt": "print the prompt, with its tools listed",
        "toolyard prompt --overrides": "print a file to override its texts with",
    },
    "plugins": {
        "toolyard plugins": "show what is loaded, and what is not and why",
        "toolyard plugins --block mcp,otel": "show it without two of them",
    },
    "check": {
        "toolyard check": "look at all plugins",
        "toolyard check weather": "look at one that is installed",
        "toolyard check --plugin room.py room": "look at a single file that is being written",
    },
    "completion": {
        'eval "$(toolyard completion bash)"': "in ~/.bashrc: complete with the Tab key",
        'eval "$(toolyard completion zsh)"': "in ~/.zshrc, after compinit",
        "toolyard completion fish | source": "in ~/.config/fish/config.fish",
    },
    "doctor": {
        "toolyard doctor": "look at everything; the exit status is 1 when something is wrong",
        "toolyard doctor --config prod.toml --json": "look with another configuration, as JSON",
    },
    "new": {
        "toolyard new weather": "write a package with tools, ./toolyard-weather",
        "toolyard new office-hours --kind policy": "write one with a policy",
        "toolyard new chat --kind approver --path src": "write one elsewhere",
    },
}
"""By command, what is typed and what it does."""


def examples_of(command: str) -> str:
    """Return the examples of a command for its help; empty where there are none."""
    examples = EXAMPLES_OF.get(command, {})
    if not examples:
        return ""
    width = max(map(len, examples))
    lines = [f"  {typed:{width}}  {does}" for typed, does in examples.items()]
    return "\n".join(["examples:", *lines])
