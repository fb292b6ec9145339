"""The first schema: roles, tables, partitions, row-level security."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from pgvector.sqlalchemy import HALFVEC
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

PARTITIONS = 8
PARTITIONED = ("chunks", "embeddings")
TABLES = ("tenants", "keys", "documents", "chunks", "embeddings", "postings", "jobs", "job_queue")
# The sub-select is evaluated once a statement; unset or emptied, it is NULL and no row matches.
POLICY = "tenant_id = (SELECT NULLIF(current_setting('app.tenant_id', true), '')::uuid)"
PROBE_TENANT = "00000000-0000-4000-8000-000000000000"

TEXTS = postgresql.ARRAY(sa.Text)


def upgrade() -> None:
    """The first schema."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.execute("CREATE EXTENSION IF NOT EXISTS vector")
    _roles()
    _tenants_and_keys()
    _documents()
    _chunks()
    _embeddings_and_postings()
    _jobs()
    # before the tables are secured: an owner who is no superuser could not write it afterwards
    op.execute(f"INSERT INTO tenants (tenant_id, name) VALUES ('{PROBE_TENANT}', 'start-up probe')")
    for table in TABLES:
        _secure(table)


def downgrade() -> None:
    """Drop it all; the roles belong to the cluster and stay."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    for table in reversed(TABLES):
        op.drop_table(table)


def _roles() -> None:
    for role in ("rag_app", "rag_worker"):
        op.execute(
            f"DO $$ BEGIN CREATE ROLE {role} NOLOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE; "
            "EXCEPTION WHEN duplicate_object THEN NULL; END $$"
        )
    _let_become("rag_app", "rag_worker")
    _let_become("current_user", "rag_app")
    op.execute(
        "DO $$ BEGIN EXECUTE format('GRANT USAGE ON SCHEMA %I TO rag_app, rag_worker', current_schema()); END $$"
    )


def _let_become(member: str, role: str) -> None:
    """Where it cannot yet: an owner who did not make the role may not grant it again."""
    name = member if member == "current_user" else f"'{member}'"
    op.execute(
        f"DO $$ BEGIN IF NOT pg_has_role({name}, '{role}', 'SET') THEN "
        f"GRANT {role} TO {member} WITH INHERIT FALSE, SET TRUE; END IF; END $$"
    )


def _secure(table: str) -> None:
    op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
    op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY one_tenant ON {table} USING ({POLICY}) WITH CHECK ({POLICY})")
    op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO rag_app")
    if table in PARTITIONED:
        for n in range(PARTITIONS):  # asked directly, a partition answers by its own policies
            op.execute(f"ALTER TABLE {table}_{n} ENABLE ROW LEVEL SECURITY")
            op.execute(f"ALTER TABLE {table}_{n} FORCE ROW LEVEL SECURITY")
    if table == "job_queue":
        op.execute("CREATE POLICY any_tenant ON job_queue TO rag_worker USING (true)")
        op.execute("GRANT SELECT, UPDATE ON job_queue TO rag_worker")


def _tenants_and_keys() -> None:
    op.create_table(
        "tenants",
        sa.Column("tenant_id", sa.Uuid, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        _moment("created_at", required=True),
        sa.Column("next_ord", sa.Integer, nullable=False, server_default="0", comment="the ordinal of the next chunk"),
        sa.Column(
            "index_version", sa.BigInteger, nullable=False, server_default="0", comment="grows with every change"
        ),
        sa.Column(
            "posted", sa.BigInteger, nullable=False, server_default="0", comment="chunks in the postings, dead too"
        ),
        sa.Column("dead", sa.BigInteger, nullable=False, server_default="0", comment="of those, chunks deleted since"),
        sa.Column("appended", sa.BigInteger, nullable=False, server_default="0", comment="chunks since compaction"),
        sa.Column(
            "writes", sa.Integer, nullable=False, server_default="0", comment="writes since then: blocks of a term"
        ),
        sa.Column("langs", TEXTS, nullable=False, server_default=sa.text("'{}'"), comment="languages it ever had"),
        sa.PrimaryKeyConstraint("tenant_id", name="pk_tenants"),
    )
    op.create_table(
        "keys",
        sa.Column("tenant_id", sa.Uuid, nullable=False),
        sa.Column("key_id", sa.Uuid, nullable=False),
        sa.Column("secret_sha256", sa.LargeBinary, nullable=False),
        sa.Column("scopes", TEXTS, nullable=False),
        sa.Column("groups", TEXTS, nullable=False),
        _moment("created_at", required=True),
        _moment("revoked_at"),
        sa.PrimaryKeyConstraint("tenant_id", "key_id", name="pk_keys"),
        _of_tenant("keys"),
    )


def _documents() -> None:
    op.create_table(
        "documents",
        sa.Column("tenant_id", sa.Uuid, nullable=False),
        sa.Column("document_id", sa.Uuid, nullable=False),
        sa.Column("external_id", sa.Text, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("doc_type", sa.Text),
        sa.Column("source", sa.Text),
        sa.Column("lang", sa.Text, nullable=False),
        sa.Column("tags", TEXTS, nullable=False),
        sa.Column("metadata", postgresql.JSONB, nullable=False),
        sa.Column("acl", TEXTS, nullable=False),
        _moment("valid_from"),
        _moment("valid_to"),
        _moment("created_at", required=True),
        _moment("updated_at", required=True),
        sa.Column(
            "fingerprint",
            sa.LargeBinary,
            nullable=False,
            comment="sha256 of the content, its facets and the chunker",
        ),
        sa.Column("chunk_count", sa.Integer, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "document_id", name="pk_documents"),
        sa.UniqueConstraint("tenant_id", "external_id", name="uq_documents_tenant_id_external_id"),
        _of_tenant("documents"),
    )
    op.create_index("ix_documents_tenant_id_doc_type", "documents", ["tenant_id", "doc_type"])
    op.create_index("ix_documents_tenant_id_source", "documents", ["tenant_id", "source"])


def _chunks() -> None:
    op.create_table(
        "chunks",
        sa.Column("tenant_id", sa.Uuid, nullable=False),
        sa.Column("chunk_id", sa.Uuid, nullable=False),
        sa.Column("document_id", sa.Uuid, nullable=False),
        sa.Column("ord", sa.Integer, nullable=False, comment="the chunk's number in the postings and embeddings"),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("breadcrumb", TEXTS, nullable=False),
        sa.Column("char_start", sa.Integer, nullable=False),
        sa.Column("char_end", sa.Integer, nullable=False),
        sa.Column("section_start", sa.Integer, nullable=False),
        sa.Column("section_end", sa.Integer, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("indexed", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "chunk_id", name="pk_chunks"),
        sa.UniqueConstraint("tenant_id", "ord", name="uq_chunks_tenant_id_ord"),
        sa.ForeignKeyConstraint(
            ["tenant_id", "document_id"],
            ["documents.tenant_id", "documents.document_id"],
            name="fk_chunks_documents",
            ondelete="CASCADE",
        ),
        postgresql_partition_by="HASH (tenant_id)",
    )
    op.create_index("ix_chunks_tenant_id_document_id", "chunks", ["tenant_id", "document_id"])
    _partitions("chunks")


def _embeddings_and_postings() -> None:
    op.create_table(
        "embeddings",
        sa.Column("tenant_id", sa.Uuid, nullable=False),
        sa.Column("ord", sa.Integer, nullable=False),
        sa.Column("embedding", HALFVEC(384), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "ord", name="pk_embeddings"),
        sa.ForeignKeyConstraint(
            ["tenant_id", "ord"], ["chunks.tenant_id", "chunks.ord"], name="fk_embeddings_chunks", ondelete="CASCADE"
        ),
        postgresql_partition_by="HASH (tenant_id)",
    )
    op.create_index(
        "ix_embeddings_hnsw",
        "embeddings",
        ["embedding"],
        postgresql_using="hnsw",
        postgresql_ops={"embedding": "halfvec_cosine_ops"},
    )
    _partitions("embeddings")
    op.create_table(
        "postings",
        sa.Column("tenant_id", sa.Uuid, nullable=False),
        sa.Column("term", sa.BigInteger, nullable=False, comment="64-bit hash of the term"),
        sa.Column("block", sa.Integer, nullable=False, comment="the lowest ordinal in the block"),
        sa.Column("n", sa.Integer, nullable=False),
        sa.Column("ords", sa.LargeBinary, nullable=False, comment="int4, little endian, rising"),
        sa.Column(
            "weights",
            sa.LargeBinary,
            nullable=False,
            comment="float4 BM25 weights without idf, in the order of ords",
        ),
        sa.PrimaryKeyConstraint("tenant_id", "term", "block", name="pk_postings"),
        _of_tenant("postings"),
    )
    # random bytes do not compress; trying costs time at every read of a long block
    op.execute("ALTER TABLE postings ALTER ords SET STORAGE EXTERNAL, ALTER weights SET STORAGE EXTERNAL")


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("tenant_id", sa.Uuid, nullable=False),
        sa.Column("job_id", sa.Uuid, nullable=False),
        sa.Column("document_id", sa.Uuid, nullable=False),
        sa.Column("external_id", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False, comment="queued, running, done, failed or cancelled"),
        sa.Column("stage", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("chunks", sa.Integer, comment="chunks written, once done"),
        sa.Column("unchanged", sa.Text, comment="why there was nothing to do"),
        sa.Column("error_code", sa.Text),
        sa.Column("error_detail", sa.Text),
        sa.Column("content_type", sa.Text, nullable=False),
        sa.Column("facets", postgresql.JSONB, nullable=False, comment="what the caller said of the document"),
        sa.Column("payload", sa.LargeBinary, comment="the content, until the job ends"),
        _moment("created_at", required=True),
        _moment("started_at"),
        _moment("finished_at"),
        sa.PrimaryKeyConstraint("tenant_id", "job_id", name="pk_jobs"),
        _of_tenant("jobs"),
    )
    op.create_index("ix_jobs_tenant_id_document_id", "jobs", ["tenant_id", "document_id"])
    op.create_table(
        "job_queue",
        sa.Column("tenant_id", sa.Uuid, nullable=False),
        sa.Column("job_id", sa.Uuid, nullable=False),
        _moment("run_at", required=True),
        _moment("leased_until"),
        sa.PrimaryKeyConstraint("tenant_id", "job_id", name="pk_job_queue"),
        sa.ForeignKeyConstraint(
            ["tenant_id", "job_id"], ["jobs.tenant_id", "jobs.job_id"], name="fk_job_queue_jobs", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_job_queue_run_at", "job_queue", ["run_at"])


def _moment(name: str, *, required: bool = False) -> sa.Column[object]:
    default = sa.func.now() if required else None
    return sa.Column(name, sa.DateTime(timezone=True), nullable=not required, server_default=default)


def _of_tenant(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=f"fk_{table}_tenants", ondelete="CASCADE")


def _partitions(table: str) -> None:
    for n in range(PARTITIONS):
        op.execute(
            f"CREATE TABLE {table}_{n} PARTITION OF {table} FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {n})"
        )
