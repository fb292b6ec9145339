"""`python -m rag` is `rag`; without a command it serves."""

from __future__ import annotations

import sys

from rag.cli import main

if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:] or ["serve"]))
