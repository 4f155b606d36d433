"""A model of transactions, undo, stops and children, one step at a time.

A value of a slice or a file is a tuple of items, beside a stamp that is another after each change.
"""

from collections import Counter
from contextlib import suppress

PATHS, SLICES, NONE = ("a.txt", "b/c.txt"), ("notes", "total", "undos"), (0, ())
READS = {"notes": "notes", "total": "total", "fail": "notes", "get": "", "put": ""}
WRITES = {"add": "notes", "swap": "total", "put": ""}
TOOLS = frozenset({*READS, *WRITES, "once"})


def effect(notes, numbers, undone=True):
    """Return the calls that an undo of some concerns, and whether they are undone by it."""
    found = {}
    for n in numbers if undone else numbers[::-1]:
        found |= {n: undone} | (effect(notes, notes[n][2], not undone) if n in notes else {})
    return found


class World:
    """The values, the keys and their holders, the stops, the notes of calls, and the ends."""

    def __init__(self):
        self.values, self.keys, self.stops, self.is_closed = {}, {}, set(), False
        self.ran, self.told, self.notes, self.stamp = Counter(), [], [], 0

    def new(self, *items):
        self.stamp += 1
        return self.stamp, items


class Layer:
    """The state that the calls of a transaction see, over the world or over another layer."""

    def __init__(self, world: World, session, below=None, title="", tools=TOOLS):
        self.world, self.session, self.below, self.title = world, session, below, title
        self.chain = [self, *(below.chain if below else [])]
        self.at = {each: each if each in PATHS else (session, each) for each in PATHS + SLICES}
        # The stops that were made since it began are `met`.
        self.tools, self.met, self.calls, self.inner = tools, set(), [], []
        self.has_lost_texts, self.reruns, self.cells, self.above = False, 0, {}, None
        if below and title:
            below.above = self
        self.forget()

    def forget(self):
        """Begin again; reads still count below."""
        for name in [name for name, cell in self.cells.items() if cell[2] and self.below]:
            self.below.cell(name)[2] = True
        self.cells, self.freed, self.undoes = {}, {}, []
        self.hand_keys_to(None)
        self.catch_up()

    def hand_keys_to(self, holder):
        held = [key for key, each in self.world.keys.items() if each is self]
        self.world.keys |= dict.fromkeys(held, holder)
        return held

    def is_used(self):
        return bool(self.above and self.above.is_used()) or not self.cells.keys().isdisjoint(SLICES)

    def catch_up(self):
        """Stand on the newest slices, if nothing has used the present ones."""
        if not self.is_used():
            if self.below:
                self.below.catch_up()
            self.pinned = {name: self.base(name) for name in SLICES}

    def base(self, name):
        """Return a value as it is below now."""
        return self.below.now(name) if self.below else self.world.values.get(self.at[name], NONE)

    def cell(self, name):
        """Return the origin of a value, its changes, and whether it was read or replaced."""
        if name not in self.cells:
            origin = self.pinned[name] if name in SLICES else self.base(name)
            self.cells[name] = [origin, [], name in PATHS, False]
        return self.cells[name]

    def now(self, name):
        if name in SLICES and name not in self.cells:
            return self.pinned[name]
        (stamp, items), changes, *_ = self.cell(name)
        for new, replaces, added in changes:
            stamp, items = new, added if replaces else items + added
        return (stamp, items) if items else NONE

    def read(self, name):
        """Return the items of a value; a file must not have moved since it was read first."""
        self.cell(name)[2], (stamp, items) = True, self.now(name)
        cells = [(each.cells[name], each.now(name)) for each in self.chain if name in each.cells]
        # A file that was made and removed here is none of its changes.
        changed = any(cell[1] and (cell[0], now) != (NONE, NONE) for cell, now in cells)
        if name in PATHS and not changed and self.world.values.get(name, NONE)[0] != stamp:
            raise LookupError
        return items

    def change(self, name, items, *, replaces):
        self.cell(name)[1].append((self.world.new()[0], replaces, items))
        self.cell(name)[3] |= replaces

    def call(self, name, arg, tools=TOOLS):
        """Return the status of a call, and its text or the names that refuse an undo."""
        if name not in self.tools & tools | {"undo"}:
            return "unknown_tool", None
        self.catch_up()
        is_denied, end = name == "add" and self.world.is_closed, ("conflict", None)
        with suppress(LookupError):
            end = ("denied", None) if is_denied or self.stops(name) else self._end_of(name, arg)
        self.calls.append((name, arg, end))
        return end

    def stops(self, *names, met=()):
        return {*self.world.stops, *met} & {"all", self.session.partition("/")[0], *names}

    def _end_of(self, name, arg):
        if name == "undo":
            return self._undo(*arg)
        if name == "once":
            holder, freed = self.world.keys.get(arg), any(arg in each.freed for each in self.chain)
            if holder not in [None, *self.chain] and (holder != "kept" or freed):
                return "error", None
            self.world.ran[arg] += holder is None
            self.world.keys[arg] = holder or self
        text = ",".join(self.read(READS[name] or arg)) if name in READS else arg
        if name in WRITES:
            self.change(WRITES[name] or arg, (arg,), replaces=name != "add")
        return "failed" if name == "fail" else "succeeded", arg if name == "put" else text

    def _undo(self, numbers, keeps):
        """Undo calls that stand, the newest first."""
        own, moved, self.has_lost_texts = self.now("undos")[1], [], True
        known = {n: each for n, each in enumerate(self.world.notes) if n in own or each[1]}
        undone = {}
        for undoes in [
            *(each[2] for each in known.values()),
            *(e.undoes for e in self.chain[::-1]),
        ]:
            undone |= effect(known, undoes)
        for n in numbers:
            made = {n: False, **effect(known, known[n][2])} if n in known else {n: None}
            if any(undone.get(each, False) is not now for each, now in made.items()):
                return "failed", []
            undone |= effect(known, [n])
        notes = [(n, self.world.notes[n][n not in own]) for n in numbers]
        inner, back = Layer(self.world, self.session, self), []
        inner.freed = {k: run for _, note in notes for k, run, *_ in note if self.has(k, run)}
        try:
            for n, note in notes:
                here = [inner.put_back(*each) for each in note if each[0] in self.at]
                moved += filter(None, here)
                back += [n] if not here or None in here else []
            if keeps or not moved:
                inner.merge()
                self.undoes += back
                if back:
                    self.cell("undos")
        finally:
            inner.forget()
        return ("failed", sorted(moved)) if moved and not keeps else ("succeeded", [])

    def put_back(self, name, at, left, former):
        """Take items back that a call has left; return the name if others have changed them."""
        items, size = self.read(name), len(left)
        found = [n for n in range(at, -1, -1) if items[n : n + size] == left]
        if not found or (former is not None and items != left):
            return name
        rest = items[: found[0]] + items[found[0] + size :]
        return self.change(name, rest if former is None else former, replaces=True)

    def has(self, key, run):
        """Tell whether a run of a key is its last one, and is kept."""
        return self.world.keys.get(key) == "kept" and self.world.ran[key] == run

    def commit(self):
        """Keep all, after a second run if need be; return how it ended."""
        used = {name for name, _, end in self.calls if end[0] == "succeeded"}
        is_denied = self.below is None and self.world.is_closed and "add" in used
        if self.stops(*used, met=self.met):
            return self.end("rolled_back")
        moved = {n for n, cell in self.cells.items() if any(cell[2:]) and self.base(n) != cell[0]}
        if moved.difference(PATHS if is_denied else ()):
            first, self.calls, self.reruns = self.calls, [], int(not self.has_lost_texts)
            self.forget()
            if not self.reruns or any(self.call(*each[:2]) != each[2] for each in first):
                return self.end("conflict")
        is_over = not (self.below or all(self.has(*each) for each in self.freed.items()))
        if is_denied or is_over:
            return self.end("rolled_back" if is_denied else "conflict")
        self.merge() if self.below else self.keep()
        return "committed"

    def merge(self):
        """Add everything to the layer below."""
        below = self.below
        for name, (_, *own) in self.cells.items():
            below.cell(name)[1:] = [a + b for a, b in zip(below.cell(name)[1:], own, strict=True)]
        self.hand_keys_to(below)
        below.calls, below.inner = below.calls + self.calls, below.inner + self.ends()
        below.has_lost_texts |= self.has_lost_texts
        below.undoes += self.undoes
        self.cells, below.freed = {}, below.freed | self.freed

    def keep(self):
        """Make everything the state of the world, and note how to undo it."""
        changes = []
        for name, cell in [(name, cell) for name, cell in self.cells.items() if cell[1]]:
            cell[0] = _, former = self.base(name)
            _, items = self.world.values[self.at[name]] = self.now(name)
            if name in SLICES or items or former:
                start, kept = (0, former) if cell[3] else (len(former), None)
                changes.append((name, start, items[start:], kept))
        changes += [(key, self.world.ran[key], (), None) for key in self.hand_keys_to("kept")]
        self.world.keys |= dict.fromkeys(self.freed)
        if changes:
            undos = self.world.new(*self.base("undos")[1], len(self.world.notes))
            self.world.values[self.session, "undos"] = undos
            # Other sessions find a note beside its files, or that of a session without a store.
            found = "/" in self.session or any(each[0] in PATHS for each in changes)
            others = [c for c in changes if found and c[0] not in SLICES]
            self.world.notes.append((changes, others, self.undoes))
        self.end("committed")

    def ends(self):
        return [*self.inner, (self.title, self.reruns)] if self.title else []

    def end(self, status):
        """Tell how it, and all that it has kept, has ended; drop changes that are not kept."""
        if status != "committed":
            (self.below or self).has_lost_texts |= bool(self.calls) or self.has_lost_texts
            self.forget()
        self.world.told += [(title, status, reruns) for title, reruns in self.ends()]
        return status
