"""Benchmarks of speed and memory: each runs the service as its users do, in a throwaway RAG_HOME.

registry.py    the benchmarks there are
program.py     `python -m eval bench NAME`: a table for people, then one line of JSON
result.py      what a benchmark found
home.py        a throwaway RAG_HOME: `rag` commands in it, a service over it
processes.py   a command's time and peak memory
corpus.py      Markdown documents with natural words, the same for the same seed
bare.py        the embedding model alone, without the service around it
ingest.py      how fast `rag ingest` is beside the bare model, and what memory it takes
lexical.py     how fast BM25 is beside other engines, and whether they find the same; lexical_corpus.py,
               lexical_store.py, lexical_peers.py: its texts, our database with them, the others
load.py        latency and errors with many clients at once; clients.py: those
rerank.py      the cross-encoder beside sentence-transformers; rerank_tasks.py, float_reference.py: what is
               reranked, and by what
"""
