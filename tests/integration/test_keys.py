from __future__ import annotations

import psycopg
import pytest

from rag.errors import Unauthenticated
from rag.store.engine import Database
from rag.store.tenancy import create_key, principal_of
from rag.values import Principal, TenantId
from tests.conftest import MakeTenant


async def test_a_key_stands_for_its_tenant_scopes_and_groups(database: Database, tenant: TenantId) -> None:
    key = await create_key(database, tenant, scopes=frozenset({"query", "ingest"}), groups=frozenset({"hr"}))

    who = await principal_of(database, key)

    assert who == Principal(tenant, frozenset({"query", "ingest"}), frozenset({"hr"}))


async def test_only_a_hash_of_the_key_is_stored(
    database: Database, tenant: TenantId, owner: psycopg.Connection
) -> None:
    key = await create_key(database, tenant, scopes=frozenset({"query"}), groups=frozenset())

    stored = owner.execute("SELECT keys::text FROM keys WHERE tenant_id = %s", (tenant,)).fetchone()

    assert stored is not None
    assert key[-20:] not in stored[0]


async def test_changed_unknown_and_revoked_keys_are_all_refused_alike(
    database: Database, make_tenant: MakeTenant, owner: psycopg.Connection
) -> None:
    mine, other = await make_tenant(), await make_tenant()
    key = await create_key(database, mine, scopes=frozenset({"query"}), groups=frozenset())
    foreign = await create_key(database, other, scopes=frozenset({"query"}), groups=frozenset())
    spliced = key[:25] + foreign[25:]
    changed = key[:-2] + ("B" if key[-2] == "A" else "A") + key[-1]

    for wrong in ("", "rag_", "rag_%%%", key[4:], key + "AAAA", changed, spliced, "rag_ключ"):
        with pytest.raises(Unauthenticated):
            await principal_of(database, wrong)
    owner.execute("UPDATE keys SET revoked_at = now() WHERE tenant_id = %s", (mine,))
    with pytest.raises(Unauthenticated):
        await principal_of(database, key)
