"""The one look at all tenants, which no role of the service may take: for who owns the database."""

from __future__ import annotations

import psycopg

from rag.errors import SetupError, StoreUnavailable
from rag.store.schema import PROBE_TENANT

CONNECT_TIMEOUT_S = 5


def roll(owner_url: str) -> list[tuple[str, int]]:
    """The name of every tenant, in order, and how many documents it has.

    Raises SetupError when row-level security holds for the owner too.
    """
    try:
        with psycopg.connect(owner_url, connect_timeout=CONNECT_TIMEOUT_S) as connection:
            row = connection.execute("SELECT row_security_active('tenants')").fetchone()
            if not row or row[0]:
                raise SetupError(
                    "row-level security hides all tenants from this role; list them with a superuser's connection in"
                    " RAG_MIGRATION_DATABASE_URL"
                )
            return connection.execute(
                "SELECT name, (SELECT count(*) FROM documents d WHERE d.tenant_id = t.tenant_id AND NOT superseded)"
                "  FROM tenants t WHERE t.tenant_id <> %s ORDER BY name",
                (PROBE_TENANT,),
            ).fetchall()
    except psycopg.OperationalError as exc:
        raise StoreUnavailable(f"the database is not reachable: {str(exc).strip().splitlines()[0]}") from exc
