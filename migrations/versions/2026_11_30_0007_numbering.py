"""Chunks that can be numbered anew, and tenants whose indexes wait for a worker's look."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

POLICY = "tenant_id = (SELECT NULLIF(current_setting('app.tenant_id', true), '')::uuid)"


def upgrade() -> None:
    """Add both, and let a worker look at every tenant that has given many ordinals."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column(
        "tenants",
        sa.Column(
            "numbering",
            sa.Integer,
            nullable=False,
            server_default=sa.text("0"),
            comment="grows when ordinals are new ones",
        ),
    )
    op.create_table(
        "upkeep",
        sa.Column("tenant_id", sa.Uuid, nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.PrimaryKeyConstraint("tenant_id", name="pk_upkeep"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name="fk_upkeep_tenants", ondelete="CASCADE"),
    )
    op.create_index("ix_upkeep_due_at", "upkeep", ["due_at"])
    op.execute("ALTER TABLE tenants NO FORCE ROW LEVEL SECURITY")  # of the owner, who reads every tenant
    op.execute("INSERT INTO upkeep (tenant_id) SELECT tenant_id FROM tenants WHERE next_ord > 100000")
    op.execute("ALTER TABLE tenants FORCE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE upkeep ENABLE ROW LEVEL SECURITY")
    op.execute("ALTER TABLE upkeep FORCE ROW LEVEL SECURITY")
    op.execute(f"CREATE POLICY one_tenant ON upkeep USING ({POLICY}) WITH CHECK ({POLICY})")
    op.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON upkeep TO rag_app")
    op.execute("CREATE POLICY any_tenant ON upkeep TO rag_worker USING (true)")
    op.execute("GRANT SELECT, UPDATE ON upkeep TO rag_worker")


def downgrade() -> None:
    """Drop both; the ordinals are as good as any."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_table("upkeep")
    op.drop_column("tenants", "numbering")
