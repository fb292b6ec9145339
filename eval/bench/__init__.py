"""Benchmarks of speed and memory: each runs the service as its users do, in a throwaway RAG_HOME.

registry.py    the benchmarks there are
program.py     `python -m eval bench NAME`: a table for people, then one line of JSON
result.py      what a benchmark found
home.py        a throwaway RAG_HOME: `rag` commands in it, a service over it
processes.py   a command's time and peak memory
corpus.py      Markdown documents with natural words, the same for the same seed
bare.py        the embedding model alone, without the service around it
ingest.py      how fast `rag ingest` is beside the bare model, and what memory it takes
"""
