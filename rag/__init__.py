"""The query service, room by room.

values calls errors protocols settings telemetry        the words every room speaks
analysis language stops sentences marks storable formats what is read in a text, and what can be stored or read at all
store/                      PostgreSQL: schema, tenancy, documents, search, jobs
inference/                  text to vectors and relevance scores
llm/                        chat models
retrieval/                  question to ranked chunks
answering/                  ranked chunks to a cited answer
wiring api/ app serving     the service put together, its routes, its process
cli commands/               its command line, a file for each group of commands
"""
