"""Benchmarks of speed, memory and exactness: of the service as its users run it, and of its parts, in a throwaway home.

registry.py    the benchmarks there are
program.py     `python -m eval bench NAME`: a table for people, then one line of JSON
result.py      what a benchmark found
home.py        a throwaway RAG_HOME: `rag` commands in it, a service over it
processes.py   a command's time and peak memory
corpus.py      Markdown documents with natural words, the same for the same seed
bare.py        the embedding model alone, without the service around it
synthetic.py   corpora of vectors and words as arrays, for filling a database without a model
database.py    a throwaway server, databases in it, filled quickly
asking.py      questions with known vectors, both legs, times
oracle.py      what both legs must find, by numpy
noted.py       the statements that a leg sends
bare_search.py the model and those statements alone
ingest.py      how fast `rag ingest` is beside the bare model, and what memory it takes
filter.py      recall, completeness and time of both legs under filters
search.py      how fast a search over HTTP is beside its bare parts
scale.py       both legs in large tenants, and in a small one among many
lexical.py     how fast BM25 is beside other engines, and whether they find the same; lexical_corpus.py,
               lexical_store.py, lexical_peers.py: its texts, our database with them, the others
load.py        latency and errors with many clients at once; clients.py: those
rerank.py      the cross-encoder beside sentence-transformers; rerank_tasks.py, float_reference.py: what is
               reranked, and by what
"""
