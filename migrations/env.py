"""Runs the migrations on the connection that `rag.store.migration` hands over."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection

from rag.store.schema import metadata


def run(connection: Connection) -> None:
    """Bring *connection*'s database to the revision asked for, in one transaction."""
    context.configure(connection=connection, target_metadata=metadata, compare_type=True, compare_server_default=True)
    with context.begin_transaction():
        context.run_migrations()


run(context.config.attributes["connection"])
