"""The query service, room by room.

values errors protocols     the words every room speaks
settings telemetry analysis sentences
store/                      PostgreSQL: schema, tenancy, documents, search, jobs
inference/                  text to vectors and relevance scores
llm/                        chat models
retrieval/                  question to ranked chunks
answering/                  ranked chunks to a cited answer
wiring api/ app cli         the service put together, its routes, its commands
"""
