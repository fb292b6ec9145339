"""What each `rag` command does; `rag/cli.py` says how it is called, and imports it when it runs."""
