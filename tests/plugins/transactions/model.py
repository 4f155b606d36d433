"""A model of transactions over sessions, files and keyed calls, one step at a time."""

from __future__ import annotations

from collections import Counter
from typing import Any

SLICES = ("notes", "total")
NONE = (0, ())
ABSENT = (0, "-")


class World:
    """The sessions, the files, the keys and their holders, and all that was told.

    Each content stands beside a stamp, which is another after each change.
    """

    def __init__(self) -> None:
        self.slices, self.files, self.keys = {}, {}, {}
        self.ran, self.told = Counter(), []
        self.closed, self.stamp = False, 0

    def new(self, content: Any = None) -> tuple[int, Any]:
        self.stamp += 1
        return self.stamp, content


class Layer:
    """The state that the calls of a transaction see, over the world or over another layer."""

    def __init__(self, world: World, session: str, below: Layer | None = None, title: str = ""):
        self.world, self.session, self.below, self.title = world, session, below, title
        self.calls, self.inner, self.has_lost_texts, self.reruns = [], [], False, 0
        self.forget()

    def forget(self) -> None:
        """Begin again; reads still count below, and the keys are free."""
        for name, (*_, read, _) in getattr(self, "cells", {}).items():
            if read and self.below is not None:
                self.below.cell(name)[2] = True
        held = [key for key, holder in self.world.keys.items() if holder is self]
        for key in held:
            del self.world.keys[key]
        # By slice: the origin, the changes, whether it was read, whether it was replaced.
        self.cells, self.seen, self.made = {}, {}, {}
        self.catch_up()

    def catch_up(self) -> None:
        """Stand on the newest state, if nothing has used the present one."""
        below = self.below
        if not self.cells:
            if below is not None:
                below.catch_up()
            self.pinned = {name: self.base(name) for name in (below.cells if below else SLICES)}

    def base(self, name: str) -> tuple[int, Any]:
        """Return a slice as it is below now."""
        if self.below is not None:
            return self.below.now(name)
        return self.world.slices.get((self.session, name), NONE)

    def at_fork(self, name: str) -> tuple[int, Any]:
        return self.pinned[name] if name in self.pinned else self.below.at_fork(name)

    def cell(self, name: str) -> list[Any]:
        return self.cells.setdefault(name, [self.at_fork(name), [], False, False])

    def now(self, name: str) -> tuple[int, Any]:
        if name not in self.cells:
            return self.at_fork(name)
        (stamp, items), changes, *_ = self.cells[name]
        for new, how, item in changes:
            stamp, items = new, (*items, item) if how == "add" else (item,)
        return stamp, items

    def change(self, name: str, how: str, item: str) -> None:
        self.cell(name)[1].append((self.world.new()[0], how, item))
        self.cell(name)[3] |= how == "swap"

    def read(self, name: str) -> str:
        self.cell(name)[2] = True
        return ",".join(self.now(name)[1])

    def below_of(self, path: str) -> tuple[int, Any]:
        files = self.world.files
        return files.get(path, ABSENT) if self.below is None else self.below.see(path)

    def see(self, path: str) -> tuple[int, Any]:
        """Return a file, which counts as read here and below."""
        if path in self.made:
            return self.made[path]
        return self.seen.setdefault(path, self.below_of(path))

    def call(self, name: str, arg: str) -> Any:
        """Return the status and the text of a call."""
        self.catch_up()
        end = self._end_of(name, arg)
        self.calls.append((name, arg, end))
        return end

    def _end_of(self, name: str, arg: str) -> Any:
        world, holder = self.world, self
        if name in (*SLICES, "fail"):
            read = self.read("notes" if name == "fail" else name)
            return "failed" if name == "fail" else "succeeded", read
        if name in ("get", "put"):
            pinned = self.see(arg)
            while holder is not None and arg not in holder.made:
                holder = holder.below
            if holder is None and pinned != world.files.get(arg, ABSENT):
                return "conflict", None
            if name == "get":
                return "succeeded", pinned[1]
            self.made[arg] = world.new("put")
        elif name == "add" and world.closed:
            return "denied", None
        elif name == "once":
            while holder is not None and world.keys.get(arg, "free") is not holder:
                holder = holder.below
            if arg in world.keys and holder is None and world.keys[arg] is not None:
                return "error", None
            world.ran[arg] += arg not in world.keys
            world.keys.setdefault(arg, self)
        else:
            self.change("notes" if name == "add" else "total", name, arg)
        return "succeeded", arg

    def conflicts(self) -> bool:
        for name, (origin, _, read, replaced) in self.cells.items():
            if (read or replaced) and self.base(name) != origin:
                return True
        return {path: self.below_of(path) for path in self.seen} != self.seen

    def commit(self) -> str:
        """Keep all, after a second run if need be; return how it ended."""
        below, world = self.below, self.world
        if self.conflicts():
            if self.has_lost_texts:
                return self.roll_back("conflict")
            first, self.calls, self.reruns = self.calls, [], 1
            self.forget()
            for name, arg, end in first:
                if self.call(name, arg) != end:
                    return self.roll_back("conflict")
        added = [end for name, _, end in self.calls if name == "add" and end[0] == "succeeded"]
        if below is None and world.closed and added:
            return self.roll_back("rolled_back")
        for name, (_, changes, read, replaced) in self.cells.items():
            if below is None and changes:
                self.cells[name][0] = self.base(name)
                world.slices[self.session, name] = self.now(name)
            elif below is not None:
                origin, before, *guards = below.cell(name)
                guards = [guards[0] or read, guards[1] or replaced]
                below.cells[name] = [origin, [*before, *changes], *guards]
        (world.files if below is None else below.made).update(self.made)
        world.keys.update({key: below for key, holder in world.keys.items() if holder is self})
        if below is None:
            self.tell("committed")
        else:
            below.calls += self.calls
            below.has_lost_texts |= self.has_lost_texts
            below.inner += [*self.inner, (self.title, self.reruns)]
        return "committed"

    def roll_back(self, status: str) -> str:
        if self.below is not None:
            self.below.has_lost_texts |= bool(self.calls)
        self.forget()
        self.tell(status)
        return status

    def tell(self, status: str) -> None:
        ends = [*self.inner, (self.title, self.reruns)] if self.title else []
        self.world.told += [(title, status, reruns) for title, reruns in ends]
