"""The peers: their names, their packages, and the files that call them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

OWN: Final = "Toolstile"


@dataclass(frozen=True)
class Peer:
    """One of those compared.

    Args:
        name: What it is called.
        runner: Its file in `runners`.
        requirements: What is installed for it, nothing where it is installed beside this program.
    """

    name: str
    runner: str
    requirements: tuple[str, ...] = ()


PEERS: Final = (
    Peer(OWN, "toolstile_host"),
    Peer("weakincentives", "weakincentives", ("weakincentives",)),
    Peer("pydantic-ai", "pydantic_ai", ("pydantic-ai-slim",)),
    Peer("OpenAI Agents SDK", "openai_agents", ("openai-agents",)),
    Peer("LangChain", "langchain", ("langchain",)),
    Peer("LangGraph", "langgraph", ("langgraph",)),
    Peer("FastMCP", "fastmcp", ("fastmcp",)),
    Peer("MCP SDK", "mcp", ("mcp",)),
    Peer("Google ADK", "google_adk", ("google-adk",)),
    Peer("Semantic Kernel", "semantic_kernel", ("semantic-kernel",)),
    Peer("Strands", "strands", ("strands-agents",)),
    Peer("Inspect", "inspect", ("inspect-ai",)),
    Peer("llm", "llm", ("llm",)),
)
