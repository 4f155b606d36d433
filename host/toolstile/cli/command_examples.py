"""Examples of the built-in commands, as their help shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EXAMPLES_OF: Final[Mapping[str, Mapping[str, str]]] = {
    "run": {
        "toolstile run --example": "run a session that comes with Toolstile",
        "toolstile run session.jsonl": "run recorded calls, one JSON object a line",
        "toolstile run chat.json --json": "run a recorded conversation, answer in JSON",
        "toolstile run session.jsonl --parallel": "dispatch all calls at once",
        "toolstile run session.jsonl --dry-run": "show what they would change, keep nothing",
    },
    "call": {
        """toolstile call list_directory '{"path": "."}' --workspace .""": "make one call",
        "toolstile call list_orders --example": "call a tool of an example",
        "toolstile call list_directory - < arguments.json": "read arguments from standard input",
    },
    "tools": {
        "toolstile tools": "list the tools with their arguments",
        "toolstile tools --schema openai": "print them as a provider takes them",
        "toolstile tools --plugin room.py --json": "list also those of a single file, as JSON",
    },
    "prompt": {
        "toolstile prompt": "print the prompt, with its tools listed",
        "toolstile prompt --overrides": "print a file to override its texts with",
    },
    "plugins": {
        "toolstile plugins": "show what is loaded, and what is not and why",
        "toolstile plugins --block mcp,otel": "show it without two of them",
    },
    "check": {
        "toolstile check": "look at all plugins",
        "toolstile check weather": "look at one that is installed",
        "toolstile check --plugin room.py room": "look at a single file that is being written",
    },
    "completion": {
        'eval "$(toolstile completion bash)"': "in ~/.bashrc: complete with the Tab key",
        'eval "$(toolstile completion zsh)"': "in ~/.zshrc, after compinit",
        "toolstile completion fish | source": "in ~/.config/fish/config.fish",
    },
    "doctor": {
        "toolstile doctor": "look at everything; the exit status is 1 when something is wrong",
        "toolstile doctor --config prod.toml --json": "look with another configuration, as JSON",
    },
    "new": {
        "toolstile new weather": "write a package with tools, ./toolstile-weather",
        "toolstile new office-hours --kind policy": "write one with a policy",
        "toolstile new chat --kind approver --path src": "write one elsewhere",
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
