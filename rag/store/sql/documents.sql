-- name: fingerprints
-- The fingerprints of those of the documents that are stored.
SELECT document_id, fingerprint FROM documents
 WHERE tenant_id = %(tenant_id)s AND document_id = ANY(%(document_ids)s);

-- name: delete_chunks
-- One row touched for each chunk of the documents; their vectors go with them.
DELETE FROM chunks WHERE tenant_id = %(tenant_id)s AND document_id = ANY(%(document_ids)s);

-- name: delete_document
-- One row touched when there was such a document.
DELETE FROM documents WHERE tenant_id = %(tenant_id)s AND document_id = %(document_id)s;

-- name: upsert_document
-- One row touched.
INSERT INTO documents (tenant_id, document_id, external_id, title, doc_type, source, lang, tags, metadata, acl,
                       valid_from, valid_to, fingerprint, chunk_count, text)
VALUES (%(tenant_id)s, %(document_id)s, %(external_id)s, %(title)s, %(doc_type)s, %(source)s, %(lang)s, %(tags)s,
        %(metadata)s, %(acl)s, %(valid_from)s, %(valid_to)s, %(fingerprint)s, %(chunk_count)s, %(text)s)
ON CONFLICT (tenant_id, document_id) DO UPDATE
   SET title = excluded.title, doc_type = excluded.doc_type, source = excluded.source, lang = excluded.lang,
       tags = excluded.tags, metadata = excluded.metadata, acl = excluded.acl, valid_from = excluded.valid_from,
       valid_to = excluded.valid_to, fingerprint = excluded.fingerprint, chunk_count = excluded.chunk_count,
       text = excluded.text, updated_at = now();

-- name: insert_chunk
-- One row touched.
INSERT INTO chunks (tenant_id, chunk_id, document_id, ord, position, kind, breadcrumb, char_start, char_end,
                    section_start, section_end, text, indexed)
VALUES (%(tenant_id)s, %(chunk_id)s, %(document_id)s, %(ord)s, %(position)s, %(kind)s, %(breadcrumb)s, %(start)s,
        %(end)s, %(section_start)s, %(section_end)s, %(text)s, %(indexed)s);

-- name: insert_embedding
-- One row touched.
INSERT INTO embeddings (tenant_id, ord, embedding) VALUES (%(tenant_id)s, %(ord)s, %(embedding)s);

-- name: insert_postings
-- One row touched for each block.
INSERT INTO postings (tenant_id, term, block, n, ords, weights)
SELECT %(tenant_id)s, p.term, p.block, p.n, p.ords, p.weights
  FROM unnest(%(terms)s::bigint[], %(blocks)s::int[], %(sizes)s::int[], %(ords)s::bytea[], %(weights)s::bytea[])
       AS p (term, block, n, ords, weights);

-- name: get_document
-- One document with everything but its fingerprint.
SELECT document_id, external_id, title, doc_type, source, lang, tags, metadata, acl, valid_from, valid_to, created_at,
       updated_at, chunk_count, text
  FROM documents
 WHERE tenant_id = %(tenant_id)s AND external_id = %(external_id)s AND (acl = '{}' OR acl && %(groups)s);

-- name: list_documents
-- A page of documents after an external id, without texts.
SELECT document_id, external_id, title, doc_type, source, lang, tags, metadata, acl, valid_from, valid_to, created_at,
       updated_at, chunk_count, NULL
  FROM documents
 WHERE tenant_id = %(tenant_id)s AND external_id > %(after)s AND (acl = '{}' OR acl && %(groups)s)
 ORDER BY external_id
 LIMIT %(limit)s;

-- name: list_chunks
-- A page of a document's chunks after a position; one row of nulls for a document without any there.
SELECT c.chunk_id, c.position, c.kind, c.breadcrumb, c.char_start, c.char_end, c.text, c.indexed
  FROM documents d
  LEFT JOIN LATERAL (
       SELECT * FROM chunks
        WHERE tenant_id = %(tenant_id)s AND document_id = d.document_id AND position > %(after)s
        ORDER BY position
        LIMIT %(limit)s) c ON true
 WHERE d.tenant_id = %(tenant_id)s AND d.external_id = %(external_id)s AND (d.acl = '{}' OR d.acl && %(groups)s)
 ORDER BY c.position;
