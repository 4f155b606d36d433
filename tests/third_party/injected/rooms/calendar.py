"""The room of the calendar."""

from __future__ import annotations

from dataclasses import replace

from toolstile_hookspecs import ToolContext, tool

from .records import Event, Share
from .state import position, rooms_of

TAGS = ("calendar",)


@tool(category="read", tags=TAGS)
def list_events(first_day: str, last_day: str, *, context: ToolContext) -> list[Event]:
    """List the events of some days.

    Args:
        first_day: The first day, as 2026-05-18.
        last_day: The last day, as 2026-05-24.
    """
    return [
        event
        for event in rooms_of(context).events
        if first_day <= event.start.partition("T")[0] <= last_day
    ]


@tool(category="read", tags=TAGS)
def search_events(query: str, *, context: ToolContext) -> list[Event]:
    """Find events by a word in their title or description."""
    return [
        event
        for event in rooms_of(context).events
        if query.lower() in f"{event.title} {event.description}".lower()
    ]


@tool(category="side_effect", tags=TAGS)
def create_event(
    title: str,
    start: str,
    end: str,
    *,
    participants: list[str] | None = None,
    location: str = "",
    description: str = "",
    context: ToolContext,
) -> str:
    """Create an event and send invitations to its participants.

    Args:
        title: The title.
        start: The beginning, as 2026-05-21T15:00.
        end: The end, as 2026-05-21T16:00.
        participants: The addresses of those who are invited.
        location: The place.
        description: What else there is to say.
    """
    rooms = rooms_of(context)
    invited = tuple(participants or ())
    made = Event(rooms.new_id("e"), title, start, end, invited, location, description)
    rooms.events.append(made)
    return f"Created as {made.id}."


@tool(category="write", tags=TAGS)
def move_event(event_id: str, start: str, end: str, *, context: ToolContext) -> str:
    """Give an event another time."""
    events = rooms_of(context).events
    at = position(events, event_id)
    events[at] = replace(events[at], start=start, end=end)
    return "Moved."


@tool(category="side_effect", tags=TAGS)
def invite_to_event(event_id: str, participants: list[str], *, context: ToolContext) -> str:
    """Invite further people, by their addresses, to an event."""
    events = rooms_of(context).events
    at = position(events, event_id)
    events[at] = replace(events[at], participants=(*events[at].participants, *participants))
    return "Invited."


@tool(category="delete", tags=TAGS)
def cancel_event(event_id: str, *, context: ToolContext) -> str:
    """Cancel an event and tell its participants."""
    events = rooms_of(context).events
    del events[position(events, event_id)]
    return "Cancelled."


@tool(category="write", tags=TAGS)
def share_calendar(address: str, access: str = "read", *, context: ToolContext) -> str:
    """Let somebody see the whole calendar, or change it with the access `write`."""
    rooms_of(context).calendar_shares.append(Share("calendar", address, access))
    return f"{address} may {access} the calendar."


TOOLS = (
    list_events,
    search_events,
    create_event,
    move_event,
    invite_to_event,
    cancel_event,
    share_calendar,
)
