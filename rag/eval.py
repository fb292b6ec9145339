"""`python -m rag.eval`: the documented way into the regression suite, which lives in eval/."""

from __future__ import annotations

from eval.__main__ import main

if __name__ == "__main__":
    raise SystemExit(main())
