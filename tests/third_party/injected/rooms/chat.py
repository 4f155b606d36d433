"""The room of the team's chat."""

from __future__ import annotations

from dataclasses import replace

from toolstile_hookspecs import ToolContext, tool

from .records import Message
from .state import found, rooms_of

ME = "mara"
TAGS = ("chat",)


@tool(category="read", tags=TAGS)
def list_channels(*, context: ToolContext) -> list[str]:
    """List the names of the channels."""
    return sorted(rooms_of(context).channels)


@tool(category="read", tags=TAGS)
def read_channel(channel: str, *, context: ToolContext) -> list[Message]:
    """Read the messages of a channel, the oldest first."""
    rooms = rooms_of(context)
    rooms.looked_at.append(f"#{channel}")
    return list(found(rooms.channels, channel).messages)


@tool(category="side_effect", tags=TAGS)
def post_message(channel: str, text: str, *, context: ToolContext) -> str:
    """Post a message in a channel."""
    channels = rooms_of(context).channels
    before = found(channels, channel)
    channels[channel] = replace(before, messages=(*before.messages, Message(ME, text)))
    return f"Posted in #{channel}."


@tool(category="read", tags=TAGS)
def read_direct_messages(person: str, *, context: ToolContext) -> list[Message]:
    """Read the direct messages with somebody, the oldest first."""
    return list(found(rooms_of(context).direct, person))


@tool(category="side_effect", tags=TAGS)
def send_direct_message(person: str, text: str, *, context: ToolContext) -> str:
    """Send somebody a direct message."""
    direct = rooms_of(context).direct
    direct[person] = (*direct.get(person, ()), Message(ME, text))
    return f"Sent to {person}."


@tool(category="side_effect", tags=TAGS)
def invite_to_channel(channel: str, person: str, *, context: ToolContext) -> str:
    """Let somebody into a channel: a name of the team, or the address of a guest."""
    channels = rooms_of(context).channels
    before = found(channels, channel)
    channels[channel] = replace(before, members=(*before.members, person))
    return f"{person} is in #{channel}."


@tool(category="delete", tags=TAGS)
def remove_from_channel(channel: str, person: str, *, context: ToolContext) -> str:
    """Remove somebody from a channel."""
    channels = rooms_of(context).channels
    before = found(channels, channel)
    members = tuple(member for member in before.members if member != person)
    channels[channel] = replace(before, members=members)
    return f"{person} is no longer in #{channel}."


TOOLS = (
    list_channels,
    read_channel,
    post_message,
    read_direct_messages,
    send_direct_message,
    invite_to_channel,
    remove_from_channel,
)
