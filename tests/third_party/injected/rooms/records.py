"""The things that lie in the rooms: mails, events, payments, messages and so on."""

from __future__ import annotations

from dataclasses import dataclass


class Record:
    """A thing that a model reads as lines of names and values."""

    def render(self) -> str:
        """Return the lines; what is empty has none."""
        values = {name: _text(value) for name, value in vars(self).items()}
        return "\n".join(f"{name}: {text}" for name, text in values.items() if text)


def _text(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


@dataclass(frozen=True)
class Attachment(Record):
    name: str
    text: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Mail(Record):
    id: str
    sender: str
    to: tuple[str, ...]
    subject: str
    body: str
    attachments: tuple[Attachment, ...] = ()
    cc: tuple[str, ...] = ()
    bcc: tuple[str, ...] = ()


@dataclass(frozen=True)
class Contact(Record):
    name: str
    email: str
    phone: str = ""


@dataclass(frozen=True)
class Event(Record):
    id: str
    title: str
    start: str
    end: str
    participants: tuple[str, ...] = ()
    location: str = ""
    description: str = ""


@dataclass(frozen=True)
class Transaction(Record):
    """A booked payment; what left the account is negative."""

    id: str
    day: str
    party: str
    iban: str
    amount: float
    subject: str


@dataclass(frozen=True)
class Payment(Record):
    recipient: str
    iban: str
    amount: float
    subject: str


@dataclass(frozen=True)
class Payee(Record):
    name: str
    iban: str


@dataclass(frozen=True)
class StandingOrder(Record):
    id: str
    recipient: str
    iban: str
    amount: float
    subject: str


@dataclass(frozen=True)
class Share(Record):
    """A file, or the calendar, that an address may see."""

    what: str
    address: str
    access: str


@dataclass(frozen=True)
class Message(Record):
    author: str
    text: str


@dataclass(frozen=True)
class Channel(Record):
    members: tuple[str, ...]
    messages: tuple[Message, ...]


@dataclass(frozen=True)
class Hotel(Record):
    name: str
    city: str
    price: int
    rating: float
    reviews: tuple[str, ...]


@dataclass(frozen=True)
class Reservation(Record):
    hotel: str
    check_in: str
    check_out: str
    guest: str
