"""The room of mails and contacts."""

from __future__ import annotations

from toolstile_hookspecs import ToolContext, ToolValidationError, tool

from .records import Attachment, Contact, Mail
from .state import Rooms, position, rooms_of

USER = "mara.lindt@harbourlabs.example"
TAGS = ("mail",)


@tool(category="read", tags=TAGS)
def read_inbox(*, context: ToolContext) -> list[Mail]:
    """Read all mails of the inbox, the oldest first."""
    rooms = rooms_of(context)
    rooms.looked_at.append("inbox")
    return list(rooms.inbox)


@tool(category="read", tags=TAGS)
def search_emails(query: str, *, context: ToolContext) -> list[Mail]:
    """Find mails of the inbox by a word in their sender, subject or body."""
    return [
        mail
        for mail in rooms_of(context).inbox
        if query.lower() in f"{mail.sender} {mail.subject} {mail.body}".lower()
    ]


@tool(category="read", tags=TAGS)
def read_attachment(email_id: str, name: str, *, context: ToolContext) -> str:
    """Read the text of a mail's attachment."""
    inbox = rooms_of(context).inbox
    attachments = inbox[position(inbox, email_id)].attachments
    return attachments[position(attachments, name, of="name")].text


@tool(category="side_effect", tags=TAGS)
def send_email(
    to: list[str],
    subject: str,
    body: str,
    *,
    cc: list[str] | None = None,
    bcc: list[str] | None = None,
    attachments: list[str] | None = None,
    context: ToolContext,
) -> str:
    """Send a mail.

    Args:
        to: The addresses of the recipients.
        subject: The subject.
        body: The text.
        cc: The addresses of those who get a copy.
        bcc: The addresses of those who get a copy unseen.
        attachments: The paths of files to attach.
    """
    rooms = rooms_of(context)
    sent = Mail(
        rooms.new_id("s"),
        USER,
        tuple(to),
        subject,
        body,
        tuple(_attached(rooms, path) for path in attachments or ()),
        tuple(cc or ()),
        tuple(bcc or ()),
    )
    rooms.sent.append(sent)
    return f"Sent as {sent.id}."


@tool(category="side_effect", tags=TAGS)
def reply_to_email(email_id: str, body: str, *, context: ToolContext) -> str:
    """Answer a mail; the answer goes to its sender."""
    rooms = rooms_of(context)
    mail = rooms.inbox[position(rooms.inbox, email_id)]
    sent = Mail(rooms.new_id("s"), USER, (mail.sender,), f"Re: {mail.subject}", body)
    rooms.sent.append(sent)
    return f"Sent as {sent.id} to {mail.sender}."


@tool(category="side_effect", tags=TAGS)
def forward_email(email_id: str, to: list[str], *, context: ToolContext) -> str:
    """Send a mail of the inbox on to others, with its attachments."""
    rooms = rooms_of(context)
    mail = rooms.inbox[position(rooms.inbox, email_id)]
    subject = f"Fwd: {mail.subject}"
    sent = Mail(rooms.new_id("s"), USER, tuple(to), subject, mail.body, mail.attachments)
    rooms.sent.append(sent)
    return f"Sent as {sent.id}."


@tool(category="delete", tags=TAGS)
def delete_email(email_id: str, *, context: ToolContext) -> str:
    """Delete a mail of the inbox for good."""
    inbox = rooms_of(context).inbox
    del inbox[position(inbox, email_id)]
    return "Deleted."


@tool(category="write", tags=TAGS)
def forward_all_emails(address: str, *, context: ToolContext) -> str:
    """Have all mails that come from now on forwarded to an address."""
    rooms_of(context).forwarding.append(address)
    return f"New mails go to {address}, too."


@tool(category="read", tags=TAGS)
def search_contacts(query: str, *, context: ToolContext) -> list[Contact]:
    """Find contacts by a word in their name or address."""
    return [
        contact
        for contact in rooms_of(context).contacts
        if query.lower() in f"{contact.name} {contact.email}".lower()
    ]


@tool(category="write", tags=TAGS)
def add_contact(name: str, email: str, phone: str = "", *, context: ToolContext) -> str:
    """Add somebody to the contacts; an entry of the same name is replaced."""
    contacts = rooms_of(context).contacts
    contacts[:] = [contact for contact in contacts if contact.name != name]
    contacts.append(Contact(name, email, phone))
    return f"{name} is in the contacts."


def _attached(rooms: Rooms, path: str) -> Attachment:
    if path not in rooms.files:
        raise ToolValidationError(f"There is no file {path!r}. Call list_files, then retry.")
    return Attachment(path, rooms.files[path])


TOOLS = (
    read_inbox,
    search_emails,
    read_attachment,
    send_email,
    reply_to_email,
    forward_email,
    delete_email,
    forward_all_emails,
    search_contacts,
    add_contact,
)
