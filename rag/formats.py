"""The document formats that are read: by content type for uploads, by suffix for files.

The parsers are in ingest/, which the service does not import; a test holds both to the same list.
"""

from __future__ import annotations

OFFICE = "application/vnd.openxmlformats-officedocument"

CONTENT_TYPES: dict[str, str] = {
    "text/markdown": "markdown",
    "text/x-markdown": "markdown",
    "text/plain": "text",
    "text/html": "html",
    "application/xhtml+xml": "html",
    "application/pdf": "pdf",
    f"{OFFICE}.wordprocessingml.document": "docx",
    f"{OFFICE}.presentationml.presentation": "pptx",
    f"{OFFICE}.spreadsheetml.sheet": "xlsx",
    "text/csv": "csv",
    "text/tab-separated-values": "csv",
    "application/x-ipynb+json": "notebook",
    "message/rfc822": "eml",
    "application/epub+zip": "epub",
    "application/x-ndjson": "jsonl",
    "application/jsonl": "jsonl",
    **dict.fromkeys(("application/json", "text/json", "application/vnd.oai.openapi+json"), "json"),
    **dict.fromkeys(("application/yaml", "application/x-yaml", "text/yaml", "application/vnd.oai.openapi"), "yaml"),
    **dict.fromkeys(("text/x-python", "text/x-go", "text/x-java-source", "text/x-rust", "text/x-csharp"), "code"),
    **dict.fromkeys(("text/javascript", "application/javascript", "application/typescript"), "code"),
    **dict.fromkeys(("text/x-c", "text/x-c++"), "code"),
}

SUFFIXES: dict[str, str] = {
    **dict.fromkeys((".md", ".markdown", ".mdown"), "markdown"),
    **dict.fromkeys((".txt", ".text"), "text"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html"),
    ".pdf": "pdf",
    ".docx": "docx",
    ".pptx": "pptx",
    **dict.fromkeys((".xlsx", ".xlsm"), "xlsx"),
    **dict.fromkeys((".csv", ".tsv"), "csv"),
    ".ipynb": "notebook",
    ".eml": "eml",
    ".epub": "epub",
    ".json": "json",
    **dict.fromkeys((".jsonl", ".ndjson"), "jsonl"),
    **dict.fromkeys((".yaml", ".yml"), "yaml"),
    **dict.fromkeys((".py", ".ts", ".tsx", ".js", ".jsx", ".mjs", ".go", ".java", ".rs"), "code"),
    **dict.fromkeys((".c", ".h", ".cc", ".cpp", ".hpp", ".cs"), "code"),
}
