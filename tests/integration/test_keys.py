from __future__ import annotations

import base64
from collections import Counter

import psycopg
import pytest

from rag.errors import NotFound, Unauthenticated
from rag.store.engine import Database
from rag.store.tenancy import SHOWN, create_key, list_keys, principal_of, revoke_key
from rag.values import Principal, TenantId
from tests.conftest import MakeTenant
from tests.integration.commands import NAME, Run


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


async def test_the_keys_of_a_tenant_are_listed_by_how_they_begin_and_no_further(
    database: Database, make_tenant: MakeTenant
) -> None:
    mine, other = await make_tenant(), await make_tenant()
    old = await create_key(database, mine, scopes=frozenset({"query"}), groups=frozenset())
    new = await create_key(database, mine, scopes=frozenset({"ingest"}), groups=frozenset({"hr"}))
    await create_key(database, other, scopes=frozenset({"admin"}), groups=frozenset())

    await revoke_key(database, old[:SHOWN])

    listed = await list_keys(database, mine)
    assert [(key.begins, key.scopes, key.groups) for key in listed] == [
        (new[:SHOWN], {"ingest"}, {"hr"}), (old[:SHOWN], {"query"}, set()),
    ]  # fmt: skip
    assert [key.revoked_at is None for key in listed] == [True, False]
    assert len(base64.b64decode(old[4:SHOWN] + "==", altchars=b"-_")) <= 32  # the tenant and part of the id alone


async def test_revoking_what_is_no_key_changes_nothing(database: Database, tenant: TenantId) -> None:
    key = await create_key(database, tenant, scopes=frozenset({"query"}), groups=frozenset())
    changed = key[:36] + ("B" if key[36] == "A" else "A") + key[37:]

    for wrong in ("", "rag_", key[:30], "rag_%%%" + key[7:], changed, key[4:], "ключ" + key[4:]):
        with pytest.raises(NotFound, match="`rag key list` shows"):
            await revoke_key(database, wrong)

    assert (await principal_of(database, key)).tenant_id == tenant


async def test_a_beginning_that_is_too_short_is_told_how_many_keys_have_it(
    database: Database, tenant: TenantId
) -> None:
    # one character behind the tenant has 16 values: of 17 keys two have the same
    keys = [await create_key(database, tenant, scopes=frozenset({"query"}), groups=frozenset()) for _ in range(17)]
    [(shared, number)] = Counter(key[:26] for key in keys).most_common(1)

    for begins, said in (
        (shared, f"^{number} keys begin with '{shared}', and none was revoked; give the 38 characters"),
        (keys[0][:36], f"^1 key begins with '{keys[0][:36]}', and none was revoked; give"),
        (keys[0][:25], f"^'{keys[0][:25]}' is too short to tell keys apart; give the 38"),
    ):
        with pytest.raises(NotFound, match=said):
            await revoke_key(database, begins)

    assert number > 1
    assert [(await principal_of(database, key)).tenant_id for key in keys] == [tenant] * 17


def test_the_command_lists_keys_in_eighty_columns(run: Run) -> None:
    none = run("key", "list")
    made = run("key", "create", "--scopes", "query,ingest,admin").stdout.strip()
    listed = run("key", "list")

    assert none.stdout == f"tenant {NAME} has no key\n"
    head, row = listed.stdout.splitlines()
    assert head.split() == ["keys", "of", NAME, "created,", "UTC", "may", "groups"]
    assert row.startswith(f"{made[:SHOWN]}  20")
    assert row.endswith("  admin,ingest,query")
    assert len(row) <= 80
