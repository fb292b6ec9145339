"""Answers that were made, to be given again while nothing they were made from has changed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from pgvector.sqlalchemy import HALFVEC

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

POLICY = "tenant_id = (SELECT NULLIF(current_setting('app.tenant_id', true), '')::uuid)"


def upgrade() -> None:
    """Make the two tables."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.create_table(
        "answer_cache",
        sa.Column("tenant_id", sa.Uuid, nullable=False),
        sa.Column("key", sa.LargeBinary, nullable=False, comment="sha256 of all the answer was made from"),
        sa.Column("kin", sa.LargeBinary, nullable=False, comment="the same but for the question and its sources"),
        sa.Column("question", sa.Text, comment="null unless similar questions are looked for"),
        sa.Column("embedding", HALFVEC(384), comment="of the question"),
        sa.Column("body", sa.Text, nullable=False, comment="the answer, JSON"),
        sa.Column("size_bytes", sa.Integer, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "key", name="pk_answer_cache"),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.tenant_id"], name="fk_answer_cache_tenants", ondelete="CASCADE"
        ),
    )
    # the answers apart from their rows, all else inside: who keeps one adds up the sizes, who looks compares vectors
    op.execute("ALTER TABLE answer_cache SET (toast_tuple_target = 128)")
    for column in ("key", "kin", "embedding"):
        op.execute(f"ALTER TABLE answer_cache ALTER COLUMN {column} SET STORAGE PLAIN")
    op.create_index("ix_answer_cache_tenant_id_kin", "answer_cache", ["tenant_id", "kin"])
    op.create_table(
        "answer_sources",
        sa.Column("tenant_id", sa.Uuid, nullable=False),
        sa.Column("document_id", sa.Uuid, nullable=False),
        sa.Column("key", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "document_id", "key", name="pk_answer_sources"),
        sa.ForeignKeyConstraint(
            ["tenant_id", "key"], ["answer_cache.tenant_id", "answer_cache.key"], name="fk_answer_sources_answer_cache",
            ondelete="CASCADE",
        ),
    )  # fmt: skip
    op.create_index("ix_answer_sources_tenant_id_key", "answer_sources", ["tenant_id", "key"])
    for table in ("answer_cache", "answer_sources"):
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY one_tenant ON {table} USING ({POLICY}) WITH CHECK ({POLICY})")
        op.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {table} TO rag_app")


def downgrade() -> None:
    """Forget the answers."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_table("answer_sources")
    op.drop_table("answer_cache")
