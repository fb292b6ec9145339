"""A graph of more links: with the 16 that are the default, some nodes of a large graph cannot be reached."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Build the graph anew, a minute or two for 100,000 vectors; searches and uploads wait."""
    _rebuild({"m": 24, "ef_construction": 100})


def downgrade() -> None:
    """Build the graph of before."""
    _rebuild({})


def _rebuild(links: dict[str, int]) -> None:
    op.execute("SET LOCAL lock_timeout = '5s'")
    op.drop_index("ix_neighbours_hnsw", "neighbours")
    op.create_index(
        "ix_neighbours_hnsw",
        "neighbours",
        ["embedding"],
        postgresql_using="hnsw",
        postgresql_with=links,
        postgresql_ops={"embedding": "halfvec_cosine_ops"},
    )
