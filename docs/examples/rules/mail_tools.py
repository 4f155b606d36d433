"""Tools of a mail assistant, over a small mailbox in memory; write your own in their place."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.request import urlopen

from toolstile_hookspecs import MarkdownSection, Section, ToolResult, hookimpl, tool


@dataclass(frozen=True)
class Contact:
    """A person in the address book of the user."""

    name: str
    email: str
    note: str = ""


@dataclass(frozen=True)
class Mail:
    """A mail."""

    number: int
    sender: str
    subject: str
    body: str


CONTACTS = [Contact("Bob", "bob@work.example")]
INBOX = {1: Mail(1, "bob@work.example", "Lunch", "At one?")}
OUTBOX: list[Mail] = []


@tool(category="read")
def search_contacts(name: str) -> list[Contact]:
    """Search the address book."""
    return [contact for contact in CONTACTS if name.lower() in contact.name.lower()]


@tool(category="read")
def list_mails() -> list[Mail]:
    """List the mails in the inbox."""
    return [*INBOX.values()]


@tool(category="read")
def read_page(url: str) -> str:
    """Read a page of the web."""
    with urlopen(url) as page:  # noqa: S310 - the rules say what may follow
        text: str = page.read().decode(errors="replace")
    return text


@tool(category="side_effect", consequence="medium")
def send_email(to: list[str], subject: str, body: str) -> str:
    """Send a mail."""
    OUTBOX.append(Mail(len(OUTBOX) + 1, "me@example.com", subject, body))
    return f"Sent to {', '.join(to)}."


@tool(category="delete", consequence="medium")
def delete_email(number: int) -> ToolResult[str]:
    """Delete a mail."""
    if INBOX.pop(number, None) is None:
        return ToolResult.error(f"There is no mail {number}. List the mails, then retry.")
    return ToolResult.ok("Deleted.")


@tool(category="write")
def create_event(title: str, start: str, participants: list[str]) -> str:
    """Put an event into the calendar, and invite people."""
    return f"{title} at {start}, with {', '.join(participants) or 'nobody'}."


@hookimpl
def toolstile_sections() -> list[Section]:
    """Offer the tools."""
    return [
        MarkdownSection(
            key="mail",
            title="Mail",
            tools=[
                search_contacts,
                list_mails,
                read_page,
                send_email,
                delete_email,
                create_event,
            ],
        )
    ]
