"""The tables: SQLAlchemy Core, the one source that migrations are checked against.

Every table has the tenant first in its primary key and in every unique index, so that rows can be spread by tenant,
and each is under forced row-level security (the policy is in migrations/). Those of model calls are in call_tables.py.
"""

from __future__ import annotations

from pgvector.sqlalchemy import HALFVEC
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

import rag.store.call_tables  # noqa: F401 - adds its tables to the metadata
from rag.store.columns import metadata as metadata
from rag.store.columns import moment_column, tenant_column
from rag.values import DIMS

REVISION = "0007"  # the newest migration; a test holds it to Alembic's head
PARTITIONS = 8  # of chunks, embeddings and neighbours, by hash of the tenant
APP_ROLE = "rag_app"  # what the service runs as: owns nothing, bypasses nothing
WORKER_ROLE = "rag_worker"  # sees which tenant has work waiting, and no tenant data
PROBE_TENANT = "00000000-0000-4000-8000-000000000000"  # its one row is looked for at start, without a tenant

tenants = Table(
    "tenants",
    metadata,
    tenant_column(),
    Column("name", Text, nullable=False),
    moment_column("created_at", required=True),
    Column("next_ord", Integer, nullable=False, server_default=text("0"), comment="the ordinal of the next chunk"),
    Column("index_version", BigInteger, nullable=False, server_default=text("0"), comment="grows with every change"),
    Column("generation", Integer, nullable=False, server_default=text("1"), comment="of the index that is asked"),
    Column("ranking", JSONB, nullable=False, server_default=text("'{}'"), comment="beside the service's settings"),
    Column("numbering", Integer, nullable=False, server_default=text("0"), comment="grows when ordinals are new ones"),
    PrimaryKeyConstraint("tenant_id"),
)

# one row for each index of a tenant: the current one, one being built beside it, one kept to go back to
indexes = Table(
    "indexes",
    metadata,
    tenant_column(),
    Column("generation", Integer, nullable=False),
    Column("embedder", Text, nullable=False),
    Column("analyser", Text, nullable=False),
    Column("chunker", Text, nullable=False),
    Column("posted", BigInteger, nullable=False, server_default=text("0"), comment="chunks in the postings, dead too"),
    Column("dead", BigInteger, nullable=False, server_default=text("0"), comment="of those, chunks deleted since"),
    Column("appended", BigInteger, nullable=False, server_default=text("0"), comment="chunks since compaction"),
    Column("writes", Integer, nullable=False, server_default=text("0"), comment="writes since then: blocks of a term"),
    Column("langs", ARRAY(Text), nullable=False, server_default=text("'{}'"), comment="languages it ever had"),
    Column("graphed", Boolean, nullable=False, server_default=text("false"), comment="its vectors are in neighbours"),
    moment_column("created_at", required=True),
    PrimaryKeyConstraint("tenant_id", "generation"),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], ondelete="CASCADE"),
)

keys = Table(
    "keys",
    metadata,
    tenant_column(),
    Column("key_id", Uuid, nullable=False),
    Column("secret_sha256", LargeBinary, nullable=False),
    Column("scopes", ARRAY(Text), nullable=False),
    Column("groups", ARRAY(Text), nullable=False),
    moment_column("created_at", required=True),
    moment_column("revoked_at"),
    PrimaryKeyConstraint("tenant_id", "key_id"),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], ondelete="CASCADE"),
)

documents = Table(
    "documents",
    metadata,
    tenant_column(),
    Column("document_id", Uuid, nullable=False),
    Column("external_id", Text, nullable=False),
    Column("title", Text, nullable=False),
    Column("doc_type", Text),
    Column("source", Text),
    Column("lang", Text, nullable=False),
    Column("tags", ARRAY(Text), nullable=False),
    Column("metadata", JSONB, nullable=False),
    Column("acl", ARRAY(Text), nullable=False),
    moment_column("valid_from"),
    moment_column("valid_to"),
    moment_column("created_at", required=True),
    moment_column("updated_at", required=True),
    Column("fingerprint", LargeBinary, nullable=False, comment="sha256 of the content, its facets and the parsers"),
    Column("chunk_count", Integer, nullable=False, comment="chunks with a vector in the current index"),
    Column("text", Text, nullable=False),
    Column("version", Integer, nullable=False, server_default=text("1"), comment="grows where history is kept"),
    Column("superseded", Boolean, nullable=False, server_default=text("false"), comment="kept as history"),
    Column("folder", Text, comment="the folder of files it is kept equal to; null when it came over HTTP"),
    Column("generations", ARRAY(Integer), nullable=False, server_default=text("'{1}'"), comment="indexes it is in"),
    Column("blocks", LargeBinary, comment="what each span of the text is: JSON, deflated; null before schema 0002"),
    Column("quarantined", JSONB, nullable=False, server_default=text("'[]'"), comment="chunks without a vector, why"),
    PrimaryKeyConstraint("tenant_id", "document_id"),
    UniqueConstraint("tenant_id", "external_id", "version"),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], ondelete="CASCADE"),
    Index(None, "tenant_id", "doc_type"),
    Index(None, "tenant_id", "source"),
)

chunks = Table(
    "chunks",
    metadata,
    tenant_column(),
    Column("chunk_id", Uuid, nullable=False),
    Column("document_id", Uuid, nullable=False),
    Column("generation", Integer, nullable=False, server_default=text("1"), comment="of the index it is in"),
    Column("content", Uuid, nullable=False, comment="sha256 of `indexed`, cut: equal chunks have it in common"),
    Column("ord", Integer, nullable=False, comment="the chunk's number in the postings and embeddings"),
    Column("position", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("breadcrumb", ARRAY(Text), nullable=False),
    Column("char_start", Integer, nullable=False),
    Column("char_end", Integer, nullable=False),
    Column("section_start", Integer, nullable=False),
    Column("section_end", Integer, nullable=False),
    Column("text", Text, nullable=False),
    Column("indexed", Text, nullable=False),
    PrimaryKeyConstraint("tenant_id", "generation", "chunk_id"),
    UniqueConstraint("tenant_id", "ord"),
    ForeignKeyConstraint(
        ["tenant_id", "document_id"], ["documents.tenant_id", "documents.document_id"], ondelete="CASCADE"
    ),
    Index(None, "tenant_id", "document_id"),
    Index(None, "tenant_id", "generation", "content"),
    postgresql_partition_by="HASH (tenant_id)",
)

# apart from the chunks, so that an exact scan reads nothing but vectors
embeddings = Table(
    "embeddings",
    metadata,
    tenant_column(),
    Column("ord", Integer, nullable=False),
    Column("embedding", HALFVEC(DIMS), nullable=False),
    PrimaryKeyConstraint("tenant_id", "ord"),
    ForeignKeyConstraint(["tenant_id", "ord"], ["chunks.tenant_id", "chunks.ord"], ondelete="CASCADE"),
    postgresql_partition_by="HASH (tenant_id)",
)

# the vectors of large indexes once more, in a graph: small ones are compared one by one sooner, and spare its upkeep
neighbours = Table(
    "neighbours",
    metadata,
    tenant_column(),
    Column("ord", Integer, nullable=False),
    Column("embedding", HALFVEC(DIMS), nullable=False),
    PrimaryKeyConstraint("tenant_id", "ord"),
    ForeignKeyConstraint(["tenant_id", "ord"], ["chunks.tenant_id", "chunks.ord"], ondelete="CASCADE"),
    Index(
        "ix_neighbours_hnsw",
        "embedding",
        postgresql_using="hnsw",
        postgresql_with={"m": 24, "ef_construction": 100},  # with fewer, parts of a large graph cannot be reached
        postgresql_ops={"embedding": "halfvec_cosine_ops"},
    ),
    postgresql_partition_by="HASH (tenant_id)",
)

postings = Table(
    "postings",
    metadata,
    tenant_column(),
    Column("generation", Integer, nullable=False, server_default=text("1"), comment="of the index it is in"),
    Column("term", BigInteger, nullable=False, comment="64-bit hash of the term"),
    Column("block", Integer, nullable=False, comment="the lowest ordinal in the block"),
    Column("n", Integer, nullable=False),
    Column("ords", LargeBinary, nullable=False, comment="int4, little endian, rising"),
    Column("weights", LargeBinary, nullable=False, comment="float4 BM25 weights without idf, in the order of ords"),
    PrimaryKeyConstraint("tenant_id", "generation", "term", "block"),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], ondelete="CASCADE"),
)

jobs = Table(
    "jobs",
    metadata,
    tenant_column(),
    Column("job_id", Uuid, nullable=False),
    Column("document_id", Uuid, nullable=False),
    Column("external_id", Text, nullable=False),
    Column("state", Text, nullable=False, comment="queued, running, done, failed or cancelled"),
    Column("stage", Text, nullable=False),
    Column("attempts", Integer, nullable=False, server_default=text("0")),
    Column("chunks", Integer, comment="chunks written, once done"),
    Column("unchanged", Text, comment="why there was nothing to do"),
    Column("error_code", Text),
    Column("error_detail", Text),
    Column("content_type", Text, comment="null when the name says it"),
    Column("facets", JSONB, nullable=False, comment="what the caller said of the document"),
    Column("payload", LargeBinary, comment="the content, until the job ends"),
    Column("folder", Text, comment="as in documents"),
    Column("keep_history", Boolean, nullable=False, server_default=text("false")),
    Column("run_id", Uuid, comment="the `rag ingest` it is part of"),
    Column("idempotency_key", Text),
    Column("request_sha256", LargeBinary, comment="of the request that came with the idempotency key"),
    Column("warnings", ARRAY(Text), nullable=False, server_default=text("'{}'")),
    Column("chunks_total", Integer, comment="chunks it was cut into"),
    Column("chunks_done", Integer, nullable=False, server_default=text("0"), comment="of those, with a vector by now"),
    moment_column("stage_at"),
    moment_column("created_at", required=True),
    moment_column("started_at"),
    moment_column("finished_at"),
    PrimaryKeyConstraint("tenant_id", "job_id"),
    UniqueConstraint("tenant_id", "idempotency_key"),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], ondelete="CASCADE"),
    Index(None, "tenant_id", "document_id"),
    Index(None, "tenant_id", "run_id"),
)

job_queue = Table(
    "job_queue",
    metadata,
    tenant_column(),
    Column("job_id", Uuid, nullable=False),
    moment_column("run_at", required=True),
    moment_column("leased_until"),
    Column("size_bytes", BigInteger, nullable=False, server_default=text("0")),
    Column("tries", Integer, nullable=False, server_default=text("0"), comment="claims so far"),
    PrimaryKeyConstraint("tenant_id", "job_id"),
    ForeignKeyConstraint(["tenant_id", "job_id"], ["jobs.tenant_id", "jobs.job_id"], ondelete="CASCADE"),
    Index("ix_job_queue_run_at", "run_at"),
)

# tenants whose indexes a worker is to look at, though no job of theirs waits
upkeep = Table(
    "upkeep",
    metadata,
    tenant_column(),
    moment_column("due_at", required=True),
    PrimaryKeyConstraint("tenant_id"),
    ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], ondelete="CASCADE"),
    Index(None, "due_at"),
)
