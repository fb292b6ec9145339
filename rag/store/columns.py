"""What the tables have in common: the metadata with its names, the tenant, and moments."""

from __future__ import annotations

from sqlalchemy import Column, DateTime, MetaData, Uuid, func

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
    }
)


def tenant_column() -> Column[object]:
    """The tenant that a row belongs to."""
    return Column("tenant_id", Uuid, nullable=False)


def moment_column(name: str, *, required: bool = False) -> Column[object]:
    """A moment with its time zone; a *required* one is by default that of the transaction."""
    default = func.now() if required else None
    return Column(name, DateTime(timezone=True), nullable=not required, server_default=default)
