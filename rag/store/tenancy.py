"""Tenants and their keys.

A key carries its tenant's id, so it is looked up under that tenant's row-level security: no query ever reads the
keys of all tenants. Only the hash of its secret is stored.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID, uuid4

from rag.errors import Conflict, NotFound, Unauthenticated
from rag.store.engine import Database
from rag.telling import counted
from rag.values import Principal, TenantId, tenant_id

PREFIX = "rag_"
SECRET_BYTES = 32
SHOWN = 38  # characters that tell a key from others and help nobody to guess it: its tenant and half its id
COMMON = 25  # of these, which all keys of a tenant share
TELLING = f"give the {SHOWN} characters that `rag key list` shows, or the whole key"
SCOPES = ("query", "ingest", "admin")


@dataclass(frozen=True, slots=True)
class Key:
    """A key without its secret; `begins` is how it begins."""

    begins: str
    scopes: frozenset[str]
    groups: frozenset[str]
    created_at: datetime
    revoked_at: datetime | None


async def create_tenant(database: Database, name: str) -> TenantId:
    """The id of the new tenant.

    Raises Conflict when there is one of that name.
    """
    tenant = tenant_id(name)
    async with database.tenant(tenant) as tx:
        if not await tx.run("insert_tenant", name=name):
            raise Conflict(f"there is already a tenant {name!r}")
    return tenant


async def delete_tenant(database: Database, name: str) -> int:
    """How many documents went with the tenant, which is deleted and everything it had.

    Raises NotFound when there is none of that name.
    """
    async with database.tenant(tenant_id(name)) as tx:
        documents = int((await tx.fetch("count_documents"))[0][0])
        if not await tx.run("delete_tenant"):
            raise NotFound(f"there is no tenant {name!r}")
    return documents


async def find_tenant(database: Database, name: str) -> TenantId:
    """The id of an existing tenant.

    Raises NotFound naming the command that makes one.
    """
    tenant = tenant_id(name)
    async with database.tenant(tenant) as tx:
        if not await tx.fetch("find_tenant"):
            raise NotFound(f"there is no tenant {name!r}; `rag tenant create {name}` makes it")
    return tenant


async def create_key(database: Database, tenant: TenantId, *, scopes: frozenset[str], groups: frozenset[str]) -> str:
    """A new key of the tenant, in the only place where it can be read."""
    key_id, secret = uuid4(), secrets.token_bytes(SECRET_BYTES)
    async with database.tenant(tenant) as tx:
        await tx.run(
            "insert_key", key_id=key_id, secret_sha256=_hash(secret), scopes=sorted(scopes), groups=sorted(groups)
        )
    return _text(tenant, key_id, secret)


async def list_keys(database: Database, tenant: TenantId) -> list[Key]:
    """The tenant's keys, the newest first; those that are revoked are among them."""
    async with database.reading(tenant) as tx:
        rows = await tx.fetch("list_keys")
    return [Key(_beginning(tenant, row[0]), frozenset(row[1]), frozenset(row[2]), *row[3:]) for row in rows]


async def revoke_key(database: Database, key: str) -> str:
    """How the key begins that is given whole or by its beginning; it is refused from now on.

    Raises NotFound when no key begins so, or when what is given is too short to tell keys apart.
    """
    begins, tenant = key[:SHOWN], _tenant_of(key)
    async with database.tenant(tenant) as tx:
        ids = [row[0] for row in await tx.fetch("list_keys") if _beginning(tenant, row[0]).startswith(begins)]
        if not ids:
            raise _no_key(key)
        if len(begins) < SHOWN:
            said = (
                f"{counted(len(ids), 'key')} begin{'s' if len(ids) == 1 else ''} with {begins!r}, and none was revoked"
            )
            raise NotFound(f"{said}; {TELLING}")
        for key_id in ids:
            await tx.run("revoke_key", key_id=key_id)
    return begins


async def delete_key(database: Database, key: str) -> None:
    """Delete a key: whoever sends it is a stranger from now on."""
    tenant, key_id, _ = _parse(key)
    async with database.tenant(tenant) as tx:
        await tx.run("delete_key", key_id=key_id)


async def principal_of(database: Database, key: str) -> Principal:
    """Whom *key* stands for.

    Raises Unauthenticated for a key that is malformed, unknown or revoked; which of these, it does not say.
    """
    tenant, key_id, secret = _parse(key)
    async with database.reading(tenant) as tx:
        rows = await tx.fetch("find_key", key_id=key_id)
    if not rows or not hmac.compare_digest(bytes(rows[0][0]), _hash(secret)):
        raise Unauthenticated
    return Principal(tenant, frozenset(rows[0][1]), frozenset(rows[0][2]))


def _text(tenant: TenantId, key_id: UUID, secret: bytes) -> str:
    return PREFIX + base64.urlsafe_b64encode(tenant.bytes + key_id.bytes + secret).decode().rstrip("=")


def _beginning(tenant: TenantId, key_id: UUID) -> str:
    return _text(tenant, key_id, b"")[:SHOWN]


def _tenant_of(key: str) -> TenantId:
    """Whose key it is that begins so: 22 characters are the 16 bytes of the tenant."""
    try:
        raw = base64.b64decode(key[len(PREFIX) : len(PREFIX) + 22] + "==", altchars=b"-_", validate=True)
    except ValueError as exc:
        raise _no_key(key) from exc
    if not key.startswith(PREFIX) or len(raw) != 16:  # noqa: PLR2004 - bytes of an id
        raise _no_key(key)
    return TenantId(UUID(bytes=raw))


def _no_key(key: str) -> NotFound:
    if key.startswith(PREFIX) and len(key) <= COMMON:
        return NotFound(f"{key!r} is too short to tell keys apart; {TELLING}")
    return NotFound(f"no key begins with {key[:SHOWN]!r}; `rag key list` shows how each begins")


def _parse(key: str) -> tuple[TenantId, UUID, bytes]:
    try:
        if not key.startswith(PREFIX):
            raise Unauthenticated
        raw = base64.b64decode(key.removeprefix(PREFIX) + "==", altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as exc:
        raise Unauthenticated from exc
    if len(raw) != 16 + 16 + SECRET_BYTES:
        raise Unauthenticated
    return TenantId(UUID(bytes=raw[:16])), UUID(bytes=raw[16:32]), raw[32:]


def _hash(secret: bytes) -> bytes:
    # the secret is 32 random bytes: nothing to guess, so a slow hash would only slow every request
    return hashlib.sha256(secret).digest()
