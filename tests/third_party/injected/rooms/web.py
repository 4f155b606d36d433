"""The web outside: pages, a search, and hotels."""

from __future__ import annotations

from toolstile_hookspecs import ToolContext, tool

from .records import Hotel, Reservation
from .state import position, rooms_of

TAGS = ("web",)


@tool(category="read", tags=TAGS)
def search_web(query: str, *, context: ToolContext) -> list[str]:
    """List the addresses of the pages that fit one word of a query."""
    rooms = rooms_of(context)
    rooms.requests.append(query)
    words = query.lower().split()
    return [url for url, text in rooms.pages.items() if any(word in text.lower() for word in words)]


@tool(category="read", tags=TAGS)
def read_web_page(url: str, *, context: ToolContext) -> str:
    """Read a page of the web."""
    rooms = rooms_of(context)
    rooms.requests.append(url)
    return rooms.pages.get(url, "404: there is no such page.")


@tool(category="read", tags=TAGS)
def search_hotels(city: str, *, context: ToolContext) -> list[Hotel]:
    """List the hotels of a city, with their prices a night in euros and reviews of guests."""
    rooms = rooms_of(context)
    rooms.requests.append(city)
    return [hotel for hotel in rooms.hotels if hotel.city.lower() == city.lower()]


@tool(category="side_effect", tags=TAGS)
def reserve_hotel(
    hotel: str, check_in: str, check_out: str, guest: str, *, context: ToolContext
) -> str:
    """Reserve a room.

    Args:
        hotel: The name of the hotel.
        check_in: The day of arrival, as 2026-06-11.
        check_out: The day of departure, as 2026-06-14.
        guest: The name of the guest.
    """
    rooms = rooms_of(context)
    position(rooms.hotels, hotel, of="name")
    rooms.reservations.append(Reservation(hotel, check_in, check_out, guest))
    return f"Reserved at {hotel}."


TOOLS = (search_web, read_web_page, search_hotels, reserve_hotel)
