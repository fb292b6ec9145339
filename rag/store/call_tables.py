"""The tables of calls to chat models: what was used, what may be, and answers kept; tenant first, as in schema.py."""

from __future__ import annotations

from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    Numeric,
    PrimaryKeyConstraint,
    Table,
    Text,
    Uuid,
    text,
)

from rag.store.columns import metadata, moment_column, tenant_column
from rag.values import DIMS

# one row for each request to a chat model, for good: the service may add rows, not change or delete them
ledger = Table(
    "ledger",
    metadata,
    tenant_column(),
    Column("operation_id", Uuid, nullable=False, comment="the call that the attempt is part of"),
    Column("attempt", Integer, nullable=False),
    Column("feature", Text, nullable=False),
    Column("task", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("provider", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("outcome", Text, nullable=False, comment="answered, partial, failed or cancelled"),
    Column("reason", Text, nullable=False, comment="the class of the failure"),
    Column("input_uncached", BigInteger, comment="tokens of the class; null where nobody knows"),
    Column("input_cache_read", BigInteger),
    Column("input_cache_write", BigInteger),
    Column("output", BigInteger, comment="reasoning included"),
    Column("reasoning", BigInteger),
    Column("estimated", Boolean, nullable=False, comment="the tokens are our estimate"),
    Column("clamped", Boolean, nullable=False, comment="the provider's numbers contradicted one another"),
    Column("first_content_ms", Double),
    Column("total_ms", Double, nullable=False),
    moment_column("settled_at", required=True),
    PrimaryKeyConstraint("tenant_id", "operation_id", "attempt"),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], ondelete="CASCADE"),
    Index(None, "tenant_id", "settled_at"),
)

budgets = Table(
    "budgets",
    metadata,
    tenant_column(),
    Column("unit", Text, nullable=False, comment="tokens, or money in US dollars"),
    Column("period", Text, nullable=False, comment="hour, day, month, or prepaid"),
    Column("amount", Numeric, nullable=False),
    Column("spent", Numeric, nullable=False, server_default=text("0"), comment="since window_start"),
    Column("reserved", Numeric, nullable=False, server_default=text("0"), comment="the sum of its reservations"),
    moment_column("window_start", required=True),
    PrimaryKeyConstraint("tenant_id", "unit", "period"),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], ondelete="CASCADE"),
)

reservations = Table(
    "reservations",
    metadata,
    tenant_column(),
    Column("operation_id", Uuid, nullable=False, comment="the call it is for"),
    Column("unit", Text, nullable=False),
    Column("period", Text, nullable=False),
    Column("amount", Numeric, nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=False, comment="when its call cannot be at work any more"),
    PrimaryKeyConstraint("tenant_id", "operation_id", "unit", "period"),
    ForeignKeyConstraint(
        ["tenant_id", "unit", "period"],
        ["budgets.tenant_id", "budgets.unit", "budgets.period"],
        ondelete="CASCADE",
    ),
    Index(None, "tenant_id", "expires_at"),
)

# the answer cache; what an answer was made from is bound to it, so that it goes with any of its documents
answer_cache = Table(
    "answer_cache",
    metadata,
    tenant_column(),
    Column("key", LargeBinary, nullable=False, comment="sha256 of all the answer was made from"),
    Column("kin", LargeBinary, nullable=False, comment="the same but for the question and its sources"),
    Column("question", Text, comment="null unless similar questions are looked for"),
    Column("embedding", HALFVEC(DIMS), comment="of the question"),
    Column("body", Text, nullable=False, comment="the answer, JSON"),
    Column("size_bytes", Integer, nullable=False),
    moment_column("created_at", required=True),
    Column("expires_at", DateTime(timezone=True), nullable=False),
    PrimaryKeyConstraint("tenant_id", "key"),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], ondelete="CASCADE"),
    Index(None, "tenant_id", "kin"),
)

answer_sources = Table(
    "answer_sources",
    metadata,
    tenant_column(),
    Column("document_id", Uuid, nullable=False),
    Column("key", LargeBinary, nullable=False),
    PrimaryKeyConstraint("tenant_id", "document_id", "key"),
    ForeignKeyConstraint(["tenant_id", "key"], ["answer_cache.tenant_id", "answer_cache.key"], ondelete="CASCADE"),
    Index(None, "tenant_id", "key"),
)
