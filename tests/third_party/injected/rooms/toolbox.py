"""The tools of all rooms."""

from __future__ import annotations

from . import bank, calendar, chat, files, mail, web

TOOLS = (*mail.TOOLS, *calendar.TOOLS, *bank.TOOLS, *files.TOOLS, *chat.TOOLS, *web.TOOLS)
