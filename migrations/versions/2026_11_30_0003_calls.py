"""What calls of chat models used, and how much a tenant may use.

The ledger is append-only for the service: it is granted no UPDATE or DELETE there. Its rows go with their tenant.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

POLICY = "tenant_id = (SELECT NULLIF(current_setting('app.tenant_id', true), '')::uuid)"
GRANTS = {
    "ledger": "SELECT, INSERT",
    "budgets": "SELECT, INSERT, UPDATE, DELETE",
    "reservations": "SELECT, INSERT, UPDATE, DELETE",
}


def upgrade() -> None:
    """Make the three tables, each of one tenant's rows only."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    _ledger()
    _budgets()
    _reservations()
    for table, rights in GRANTS.items():
        op.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY")
        op.execute(f"CREATE POLICY one_tenant ON {table} USING ({POLICY}) WITH CHECK ({POLICY})")
        op.execute(f"GRANT {rights} ON {table} TO rag_app")


def downgrade() -> None:
    """Drop them with what they hold."""
    op.execute("SET LOCAL lock_timeout = '5s'")
    for table in ("reservations", "budgets", "ledger"):
        op.drop_table(table)


def _ledger() -> None:
    op.create_table(
        "ledger",
        sa.Column("tenant_id", sa.Uuid, nullable=False),
        sa.Column("operation_id", sa.Uuid, nullable=False, comment="the call that the attempt is part of"),
        sa.Column("attempt", sa.Integer, nullable=False),
        *(_text(name) for name in ("feature", "task", "target", "provider", "model")),
        _text("outcome", "answered, partial, failed or cancelled"),
        _text("reason", "the class of the failure"),
        sa.Column("input_uncached", sa.BigInteger, comment="tokens of the class; null where nobody knows"),
        sa.Column("input_cache_read", sa.BigInteger),
        sa.Column("input_cache_write", sa.BigInteger),
        sa.Column("output", sa.BigInteger, comment="reasoning included"),
        sa.Column("reasoning", sa.BigInteger),
        sa.Column("estimated", sa.Boolean, nullable=False, comment="the tokens are our estimate"),
        sa.Column("clamped", sa.Boolean, nullable=False, comment="the provider's numbers contradicted one another"),
        sa.Column("first_content_ms", sa.Double),
        sa.Column("total_ms", sa.Double, nullable=False),
        sa.Column("settled_at", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.PrimaryKeyConstraint("tenant_id", "operation_id", "attempt", name="pk_ledger"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name="fk_ledger_tenants", ondelete="CASCADE"),
    )
    op.create_index("ix_ledger_tenant_id_settled_at", "ledger", ["tenant_id", "settled_at"])


def _budgets() -> None:
    op.create_table(
        "budgets",
        sa.Column("tenant_id", sa.Uuid, nullable=False),
        _text("unit", "tokens, or money in US dollars"),
        _text("period", "hour, day, month, or prepaid"),
        sa.Column("amount", sa.Numeric, nullable=False),
        _amount("spent", "since window_start"),
        _amount("reserved", "the sum of its reservations"),
        sa.Column("window_start", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.PrimaryKeyConstraint("tenant_id", "unit", "period", name="pk_budgets"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name="fk_budgets_tenants", ondelete="CASCADE"),
    )


def _reservations() -> None:
    expiry = "when its call cannot be at work any more"
    op.create_table(
        "reservations",
        sa.Column("tenant_id", sa.Uuid, nullable=False),
        sa.Column("operation_id", sa.Uuid, nullable=False, comment="the call it is for"),
        _text("unit"),
        _text("period"),
        sa.Column("amount", sa.Numeric, nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False, comment=expiry),
        sa.PrimaryKeyConstraint("tenant_id", "operation_id", "unit", "period", name="pk_reservations"),
        sa.ForeignKeyConstraint(
            ["tenant_id", "unit", "period"],
            ["budgets.tenant_id", "budgets.unit", "budgets.period"],
            name="fk_reservations_budgets",
            ondelete="CASCADE",
        ),
    )
    op.create_index("ix_reservations_tenant_id_expires_at", "reservations", ["tenant_id", "expires_at"])


def _text(name: str, comment: str | None = None) -> sa.Column[object]:
    return sa.Column(name, sa.Text, nullable=False, comment=comment)


def _amount(name: str, comment: str) -> sa.Column[object]:
    return sa.Column(name, sa.Numeric, nullable=False, server_default=sa.text("0"), comment=comment)
