"""A tenant's ranking may have weights and a depth of its own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.add_column(
        "tenants",
        sa.Column(
            "ranking",
            postgresql.JSONB,
            nullable=False,
            server_default=sa.text("'{}'"),
            comment="beside the service's settings",
        ),
    )


def downgrade() -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_column("tenants", "ranking")
