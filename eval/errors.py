"""The one error of the suite."""

from __future__ import annotations


class CannotRun(Exception):
    """Nothing can be judged; the message says why to the person who started the run."""
