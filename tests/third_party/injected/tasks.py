"""The tasks of all rooms."""

from __future__ import annotations

from . import tasks_bank, tasks_calendar, tasks_chat, tasks_files, tasks_mail
from .scenario import Task

ROOMS: dict[str, tuple[Task, ...]] = {
    "mail": tasks_mail.TASKS,
    "calendar": tasks_calendar.TASKS,
    "bank": tasks_bank.TASKS,
    "files": tasks_files.TASKS,
    "chat": tasks_chat.TASKS,
}
TASKS = tuple(task for room in ROOMS.values() for task in room)
