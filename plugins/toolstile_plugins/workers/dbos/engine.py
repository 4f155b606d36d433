"""DBOS as the queue of calls: its tables, its client, and the form of a call in it.

Marks of starts, outcomes and workers are in tables of ours; DBOS hands each call to one worker.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter

from toolstile_hookspecs import ConfigurationError
from toolstile_hookspecs.services.dispatcher import DispatchedCall
from toolstile_hookspecs.support.text import extra_remedy

if TYPE_CHECKING:
    from dbos import DBOSClient
    from sqlalchemy import Engine

    from toolstile_plugins.database.postgres_database import PostgresDatabase

APPLICATION: Final = "toolstile"
WORKFLOW: Final = "toolstile_call"
VERSION: Final = "1"
"""The version of the workflow; which tools a worker has is known by its queue."""
SCHEMA: Final = "toolstile_dbos"
CALLS: Final = TypeAdapter(DispatchedCall)
"""Calls as JSON."""
_MIDDLE: Final = 2**30
"""The priority of calls whose own is 0: in DBOS, 1 comes first and 2 ** 31 - 1 last."""


def require_extra() -> None:
    """Check that DBOS is installed; importing it takes longer than many a command.

    Raises:
        ConfigurationError: The extra `dbos` is not installed.
    """
    if find_spec("dbos") is None:
        raise ConfigurationError(
            f"Calls on workers through DBOS need dbos. {extra_remedy('dbos')}."
        )


def engine_of(database: PostgresDatabase, connections: int) -> Engine:
    """Return an engine for DBOS whose connections are opened as all others are."""
    import sqlalchemy  # late: only who uses it has it

    def connect() -> Any:
        connection = database.connect()
        connection.autocommit = False
        return connection

    return sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=connect, pool_size=connections, pool_pre_ping=True
    )


def client_of(engine: Engine) -> DBOSClient:
    """Return a client that connects when it is used, and raises where it cannot."""
    from dbos import DBOSClient

    return DBOSClient(
        system_database_engine=engine,
        dbos_system_schema=SCHEMA,
        application_name=APPLICATION,
        lazy=True,
        retry_connection_errors=False,
    )


@contextmanager
def explaining(database: PostgresDatabase) -> Generator[None]:
    """Raise `StateError` where DBOS or its database cannot be used."""
    import psycopg
    from dbos import error as dbos_errors
    from sqlalchemy.exc import DBAPIError, SQLAlchemyError

    try:
        yield
    except DBAPIError as error:
        cause = error.orig if isinstance(error.orig, psycopg.Error) else error
        raise database.explained(cause) from error
    except (dbos_errors.DBOSException, SQLAlchemyError, psycopg.Error) as error:
        raise database.explained(error) from error


def enqueue(client: DBOSClient, queue: str, call: DispatchedCall) -> None:
    """Put a call on a queue; a key that is on one already stays where it is."""
    from dbos import EnqueueOptions, WorkflowSerializationFormat

    options: EnqueueOptions = {
        "queue_name": queue,
        "workflow_name": WORKFLOW,
        "workflow_id": call.key,
        "app_version": VERSION,
        "priority": min(max(_MIDDLE - call.priority, 1), 2 * _MIDDLE - 1),
        # Else, DBOS pickles.
        "serialization_type": WorkflowSerializationFormat.PORTABLE,
    }
    client.enqueue(options, CALLS.dump_json(call).decode())
