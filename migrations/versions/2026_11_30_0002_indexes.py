"""Indexes with a recipe and a generation, versions of documents, and jobs that can be watched.

What is stored becomes generation 1 of an embedder that nobody can name, since none was recorded: its vectors are not
taken for another's. `rag reindex` makes the next one from the stored chunks.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from pgvector.sqlalchemy import HALFVEC
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

PARTITIONS = 8
POLICY = "tenant_id = (SELECT NULLIF(current_setting('app.tenant_id', true), '')::uuid)"
COUNTERS = ("posted", "dead", "appended", "writes", "langs")
TEXTS = postgresql.ARRAY(sa.Text)


def upgrade() -> None:
    """Move each tenant's counters to its first index, and add the columns."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    _see_all("NO FORCE")
    _indexes()
    _documents()
    _chunks_and_postings()
    _jobs()
    _neighbours()
    _see_all("FORCE")
    op.execute("ALTER TABLE indexes ENABLE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE indexes FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY one_tenant ON indexes USING ({POLICY}) WITH CHECK ({POLICY})")
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON indexes TO rag_app")
    # rows are copied into a temporary table first: COPY takes no table under row-level security
    op.execute("DO $$ BEGIN EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO rag_app', current_database()); END $$")


def downgrade() -> None:
    """Back to one index: the others, the history and what came with them are dropped."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    _see_all("NO FORCE")
    op.execute("ALTER TABLE indexes NO FORCE ROW LEVEL SECURITY")
    op.execute("DELETE FROM documents WHERE superseded")
    op.execute("DELETE FROM chunks c USING tenants t WHERE t.tenant_id = c.tenant_id AND c.generation <> t.generation")
    op.execute(
        "DELETE FROM postings p USING tenants t WHERE t.tenant_id = p.tenant_id AND p.generation <> t.generation"
    )
    _undo_jobs()
    _keyed("postings", "tenant_id, term, block")
    _drop_columns("postings", "generation")
    op.drop_index("ix_chunks_tenant_id_generation_content", "chunks")
    _keyed("chunks", "tenant_id, chunk_id")
    _drop_columns("chunks", "generation", "content")
    op.drop_constraint("uq_documents_tenant_id_external_id_version", "documents")
    op.create_unique_constraint("uq_documents_tenant_id_external_id", "documents", ["tenant_id", "external_id"])
    _drop_columns("documents", "version", "superseded", "folder", "generations", "blocks", "quarantined")
    op.alter_column("documents", "chunk_count", comment=None)
    op.alter_column("documents", "fingerprint", comment="sha256 of the content, its facets and the chunker")
    for column in _counters():
        op.add_column("tenants", column)
    op.execute(
        f"UPDATE tenants t SET ({', '.join(COUNTERS)}) = (SELECT {', '.join(COUNTERS)} FROM indexes i"
        " WHERE i.tenant_id = t.tenant_id AND i.generation = t.generation)"
        " WHERE EXISTS (SELECT 1 FROM indexes i WHERE i.tenant_id = t.tenant_id AND i.generation = t.generation)"
    )
    _drop_columns("tenants", "generation")
    op.drop_table("indexes")
    op.drop_table("neighbours")
    _graph("embeddings")
    _see_all("FORCE")


def _see_all(force: str) -> None:
    """Row-level security of the owner, who moves the rows of every tenant."""
    parts = [f"{table}_{n}" for table in ("chunks", "embeddings") for n in range(PARTITIONS)]
    for table in ("tenants", "documents", "chunks", "embeddings", *parts, "postings", "jobs"):
        op.execute(f"ALTER TABLE {table} {force} ROW LEVEL SECURITY")


def _indexes() -> None:
    op.create_table(
        "indexes",
        sa.Column("tenant_id", sa.Uuid, nullable=False),
        sa.Column("generation", sa.Integer, nullable=False),
        sa.Column("embedder", sa.Text, nullable=False),
        sa.Column("analyser", sa.Text, nullable=False),
        sa.Column("chunker", sa.Text, nullable=False),
        *_counters(),
        sa.Column(
            "graphed",
            sa.Boolean,
            nullable=False,
            server_default=sa.text("false"),
            comment="its vectors are in neighbours",
        ),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.PrimaryKeyConstraint("tenant_id", "generation", name="pk_indexes"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name="fk_indexes_tenants", ondelete="CASCADE"),
    )
    op.execute(
        f"INSERT INTO indexes (tenant_id, generation, embedder, analyser, chunker, {', '.join(COUNTERS)})"
        " SELECT tenant_id, 1, 'unknown', 'identifiers+snowball-1', 'structure-2',"
        f" {', '.join(COUNTERS)} FROM tenants WHERE posted > 0"
    )
    _drop_columns("tenants", *COUNTERS)
    op.add_column("tenants", _number("generation", "1", "of the index that is asked"))


def _documents() -> None:
    op.add_column("documents", _number("version", "1", "grows where history is kept"))
    op.add_column(
        "documents",
        sa.Column("superseded", sa.Boolean, nullable=False, server_default=sa.text("false"), comment="kept as history"),
    )
    op.add_column(
        "documents",
        sa.Column("folder", sa.Text, comment="the folder of files it is kept equal to; null when it came over HTTP"),
    )
    op.add_column(
        "documents",
        sa.Column(
            "generations",
            postgresql.ARRAY(sa.Integer),
            nullable=False,
            server_default=sa.text("'{1}'"),
            comment="indexes it is in",
        ),
    )
    blocks = "what each span of the text is: JSON, deflated; null before schema 0002"
    op.add_column("documents", sa.Column("blocks", sa.LargeBinary, comment=blocks))
    op.add_column(
        "documents",
        sa.Column(
            "quarantined",
            postgresql.JSONB,
            nullable=False,
            server_default=sa.text("'[]'"),
            comment="chunks without a vector, why",
        ),
    )
    op.drop_constraint("uq_documents_tenant_id_external_id", "documents")
    op.create_unique_constraint(
        "uq_documents_tenant_id_external_id_version", "documents", ["tenant_id", "external_id", "version"]
    )
    op.alter_column("documents", "chunk_count", comment="chunks with a vector in the current index")
    op.alter_column("documents", "fingerprint", comment="sha256 of the content, its facets and the parsers")


def _chunks_and_postings() -> None:
    op.add_column("chunks", _number("generation", "1", "of the index it is in"))
    content = "sha256 of `indexed`, cut: equal chunks have it in common"
    op.add_column("chunks", sa.Column("content", sa.Uuid, comment=content))
    op.execute("UPDATE chunks SET content = encode(substr(sha256(convert_to(indexed, 'UTF8')), 1, 16), 'hex')::uuid")
    op.alter_column("chunks", "content", nullable=False)
    _keyed("chunks", "tenant_id, generation, chunk_id")
    op.create_index("ix_chunks_tenant_id_generation_content", "chunks", ["tenant_id", "generation", "content"])
    op.add_column("postings", _number("generation", "1", "of the index it is in"))
    _keyed("postings", "tenant_id, generation, term, block")


def _jobs() -> None:
    op.alter_column("jobs", "content_type", nullable=True, comment="null when the name says it")
    for column in (
        sa.Column("folder", sa.Text, comment="as in documents"),
        sa.Column("keep_history", sa.Boolean, nullable=False, server_default=sa.text("false")),
        sa.Column("run_id", sa.Uuid, comment="the `rag ingest` it is part of"),
        sa.Column("idempotency_key", sa.Text),
        sa.Column("request_sha256", sa.LargeBinary, comment="of the request that came with the idempotency key"),
        sa.Column("warnings", TEXTS, nullable=False, server_default=sa.text("'{}'")),
        sa.Column("chunks_total", sa.Integer, comment="chunks it was cut into"),
        _number("chunks_done", "0", "of those, with a vector by now"),
        sa.Column("stage_at", sa.DateTime(timezone=True)),
    ):
        op.add_column("jobs", column)
    op.create_unique_constraint("uq_jobs_tenant_id_idempotency_key", "jobs", ["tenant_id", "idempotency_key"])
    op.create_index("ix_jobs_tenant_id_run_id", "jobs", ["tenant_id", "run_id"])
    op.add_column("job_queue", sa.Column("size_bytes", sa.BigInteger, nullable=False, server_default=sa.text("0")))
    op.add_column("job_queue", _number("tries", "0", "claims so far"))


def _neighbours() -> None:
    """A graph for large indexes only, in place of one over all vectors."""
    op.drop_index("ix_embeddings_hnsw", "embeddings")
    op.create_table(
        "neighbours",
        sa.Column("tenant_id", sa.Uuid, nullable=False),
        sa.Column("ord", sa.Integer, nullable=False),
        sa.Column("embedding", HALFVEC(384), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "ord", name="pk_neighbours"),
        sa.ForeignKeyConstraint(
            ["tenant_id", "ord"], ["chunks.tenant_id", "chunks.ord"], name="fk_neighbours_chunks", ondelete="CASCADE"
        ),
        postgresql_partition_by="HASH (tenant_id)",
    )
    for n in range(PARTITIONS):
        op.execute(
            f"CREATE TABLE neighbours_{n} PARTITION OF neighbours FOR VALUES WITH (MODULUS {PARTITIONS}, REMAINDER {n})"
        )
    op.execute("UPDATE indexes SET graphed = true WHERE posted - dead > 10000")
    op.execute(
        "INSERT INTO neighbours SELECT e.tenant_id, e.ord, e.embedding FROM embeddings e"
        " JOIN indexes i ON i.tenant_id = e.tenant_id WHERE i.graphed"
    )
    _graph("neighbours")
    for table in ("neighbours", *(f"neighbours_{n}" for n in range(PARTITIONS))):
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY one_tenant ON neighbours USING ({POLICY}) WITH CHECK ({POLICY})")
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON neighbours TO rag_app")


def _graph(table: str) -> None:
    op.create_index(
        f"ix_{table}_hnsw",
        table,
        ["embedding"],
        postgresql_using="hnsw",
        postgresql_ops={"embedding": "halfvec_cosine_ops"},
    )


def _undo_jobs() -> None:
    _drop_columns("job_queue", "size_bytes", "tries")
    op.drop_constraint("uq_jobs_tenant_id_idempotency_key", "jobs")
    op.drop_index("ix_jobs_tenant_id_run_id", "jobs")
    _drop_columns("jobs", "folder", "keep_history", "run_id", "idempotency_key", "request_sha256", "warnings")
    _drop_columns("jobs", "chunks_total", "chunks_done", "stage_at")
    op.execute("UPDATE jobs SET content_type = 'text/markdown' WHERE content_type IS NULL")
    op.alter_column("jobs", "content_type", nullable=False)


def _counters() -> list[sa.Column[object]]:
    return [
        _large("posted", "chunks in the postings, dead too"),
        _large("dead", "of those, chunks deleted since"),
        _large("appended", "chunks since compaction"),
        _number("writes", "0", "writes since then: blocks of a term"),
        sa.Column("langs", TEXTS, nullable=False, server_default=sa.text("'{}'"), comment="languages it ever had"),
    ]


def _number(name: str, default: str, comment: str) -> sa.Column[object]:
    return sa.Column(name, sa.Integer, nullable=False, server_default=sa.text(default), comment=comment)


def _large(name: str, comment: str) -> sa.Column[object]:
    return sa.Column(name, sa.BigInteger, nullable=False, server_default=sa.text("0"), comment=comment)


def _keyed(table: str, columns: str) -> None:
    op.execute(f"ALTER TABLE {table} DROP CONSTRAINT pk_{table}, ADD CONSTRAINT pk_{table} PRIMARY KEY ({columns})")


def _drop_columns(table: str, *columns: str) -> None:
    for column in columns:
        op.drop_column(table, column)
