"""What text can be stored and sent: everything but what PostgreSQL and UTF-8 do not hold."""

from __future__ import annotations


def storable(text: str) -> bool:
    """Whether *text* has no NUL and no lone surrogate."""
    return "\0" not in text and not any("\ud800" <= c <= "\udfff" for c in text)
