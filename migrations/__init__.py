"""Alembic migrations; `rag/store/schema.py` is what they lead to."""
