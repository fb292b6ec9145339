-- name: fingerprints
-- The fingerprints of those of the documents that are stored.
SELECT document_id, fingerprint FROM documents
 WHERE tenant_id = %(tenant_id)s AND document_id = ANY(%(document_ids)s);

-- name: delete_chunks
-- One row touched for each index that had chunks of the documents; their vectors go with them.
WITH gone AS (
       DELETE FROM chunks WHERE tenant_id = %(tenant_id)s AND document_id = ANY(%(document_ids)s)
       RETURNING generation),
     counted AS (SELECT generation, count(*) AS n FROM gone GROUP BY generation)
UPDATE indexes i SET dead = dead + counted.n
  FROM counted WHERE i.tenant_id = %(tenant_id)s AND i.generation = counted.generation;

-- name: delete_documents
-- One row touched for each version there was of the document.
DELETE FROM documents WHERE tenant_id = %(tenant_id)s AND external_id = %(external_id)s;

-- name: versions_of
-- The ids of the document's versions.
SELECT document_id FROM documents WHERE tenant_id = %(tenant_id)s AND external_id = %(external_id)s;

-- name: upsert_document
-- One row touched.
INSERT INTO documents (tenant_id, document_id, external_id, title, doc_type, source, lang, tags, metadata, acl,
                       valid_from, valid_to, fingerprint, chunk_count, text, version, folder, generations, blocks,
                       quarantined)
VALUES (%(tenant_id)s, %(document_id)s, %(external_id)s, %(title)s, %(doc_type)s, %(source)s, %(lang)s, %(tags)s,
        %(metadata)s, %(acl)s, %(valid_from)s, %(valid_to)s, %(fingerprint)s, %(chunk_count)s, %(text)s, %(version)s,
        %(folder)s, ARRAY[%(generation)s::int], %(blocks)s, %(quarantined)s)
ON CONFLICT (tenant_id, document_id) DO UPDATE
   SET title = excluded.title, doc_type = excluded.doc_type, source = excluded.source, lang = excluded.lang,
       tags = excluded.tags, metadata = excluded.metadata, acl = excluded.acl,
       valid_from = coalesce(excluded.valid_from, CASE WHEN documents.version > 1 THEN documents.valid_from END),
       valid_to = excluded.valid_to, fingerprint = excluded.fingerprint, chunk_count = excluded.chunk_count,
       text = excluded.text, version = excluded.version, folder = excluded.folder, generations = excluded.generations,
       blocks = excluded.blocks, quarantined = excluded.quarantined, updated_at = now();

-- name: close_history
-- One row touched for each version before whose groups were others: a document's groups are those of its newest version.
UPDATE documents v SET acl = d.acl
  FROM documents d
 WHERE v.tenant_id = %(tenant_id)s AND d.tenant_id = %(tenant_id)s AND d.document_id = ANY(%(document_ids)s)
   AND v.external_id = d.external_id AND v.superseded AND v.acl <> d.acl;

-- name: current_versions
-- The numbers of the current versions of documents.
SELECT document_id, version FROM documents
 WHERE tenant_id = %(tenant_id)s AND document_id = ANY(%(document_ids)s);

-- name: next_version
-- One row touched: the current version's number is left to its copy.
UPDATE documents SET version = version + 1 WHERE tenant_id = %(tenant_id)s AND document_id = %(document_id)s;

-- name: keep_version
-- One row touched: the version before once more, as history that ends where the next one begins.
INSERT INTO documents (tenant_id, document_id, external_id, title, doc_type, source, lang, tags, metadata, acl,
                       valid_from, valid_to, created_at, updated_at, fingerprint, chunk_count, text, version,
                       superseded, folder, generations, blocks, quarantined)
SELECT tenant_id, %(kept_id)s, external_id, title, doc_type, source, lang, tags, metadata, acl, valid_from,
       least(valid_to, %(valid_until)s), created_at, updated_at, fingerprint, chunk_count, text, version - 1, true,
       folder, generations, blocks, quarantined
  FROM documents WHERE tenant_id = %(tenant_id)s AND document_id = %(document_id)s;

-- name: keep_chunks
-- One row touched for each chunk: the chunks of the current version go over to its copy, under ids of its own.
UPDATE chunks SET document_id = %(kept_id)s, chunk_id = md5(%(kept_id)s::text || chunk_id::text)::uuid
 WHERE tenant_id = %(tenant_id)s AND document_id = %(document_id)s;

-- name: stage_table
-- Nothing; the rows of one transaction on their way in. -- unscoped: a table that this connection alone sees
CREATE TEMPORARY TABLE IF NOT EXISTS staged_chunks (
       chunk_id uuid, document_id uuid, generation int, content uuid, ord int, position int, kind text,
       breadcrumb text[], char_start int, char_end int, section_start int, section_end int, text text, indexed text,
       embedding halfvec) ON COMMIT DELETE ROWS;

-- name: stage_chunks
-- Rows in; COPY takes no table under row-level security. -- unscoped: a table that this connection alone sees
COPY staged_chunks (chunk_id, document_id, generation, content, ord, position, kind, breadcrumb, char_start, char_end,
                    section_start, section_end, text, indexed, embedding) FROM STDIN (FORMAT BINARY);

-- name: insert_chunks
-- One row touched for each staged chunk.
INSERT INTO chunks (tenant_id, chunk_id, document_id, generation, content, ord, position, kind, breadcrumb, char_start,
                    char_end, section_start, section_end, text, indexed)
SELECT %(tenant_id)s, chunk_id, document_id, generation, content, ord, position, kind, breadcrumb, char_start, char_end,
       section_start, section_end, text, indexed
  FROM staged_chunks;

-- name: insert_embeddings
-- One row touched for each staged chunk that has a vector.
INSERT INTO embeddings (tenant_id, ord, embedding)
SELECT %(tenant_id)s, ord, embedding FROM staged_chunks WHERE embedding IS NOT NULL;

-- name: insert_neighbours
-- One row touched for each staged chunk that has a vector.
INSERT INTO neighbours (tenant_id, ord, embedding)
SELECT %(tenant_id)s, ord, embedding FROM staged_chunks WHERE embedding IS NOT NULL;

-- name: insert_postings
-- One row touched for each block.
INSERT INTO postings (tenant_id, generation, term, block, n, ords, weights)
SELECT %(tenant_id)s, %(generation)s, p.term, p.block, p.n, p.ords, p.weights
  FROM unnest(%(terms)s::bigint[], %(blocks)s::int[], %(sizes)s::int[], %(ords)s::bytea[], %(weights)s::bytea[])
       AS p (term, block, n, ords, weights);

-- name: get_document
-- One version of a document, the current one when none is named, with everything but its fingerprint.
SELECT document_id, external_id, version, superseded, title, doc_type, source, lang, tags, metadata, acl, valid_from,
       valid_to, created_at, updated_at, folder, chunk_count, quarantined, text
  FROM documents
 WHERE tenant_id = %(tenant_id)s AND external_id = %(external_id)s
   AND (%(groups)s::text[] IS NULL OR acl = '{}' OR acl && %(groups)s)
   AND version = coalesce(%(version)s::int, version) AND (%(version)s::int IS NOT NULL OR NOT superseded);

-- name: list_documents
-- A page of documents after an external id, of those that begin so and are in that folder, without texts.
SELECT document_id, external_id, version, superseded, title, doc_type, source, lang, tags, metadata, acl, valid_from,
       valid_to, created_at, updated_at, folder, chunk_count, quarantined, NULL
  FROM documents
 WHERE tenant_id = %(tenant_id)s AND external_id > %(after)s AND NOT superseded
   AND (%(groups)s::text[] IS NULL OR acl = '{}' OR acl && %(groups)s)
   AND starts_with(external_id, %(prefix)s) AND (%(folder)s::text IS NULL OR folder = %(folder)s)
 ORDER BY external_id
 LIMIT %(limit)s;

-- name: list_chunks
-- A page of the chunks of a document's current version after a position; one row of nulls for a document without any there.
SELECT c.chunk_id, c.position, c.kind, c.breadcrumb, c.char_start, c.char_end, c.text, c.indexed
  FROM documents d JOIN tenants t ON t.tenant_id = d.tenant_id
  LEFT JOIN LATERAL (
       SELECT * FROM chunks
        WHERE tenant_id = %(tenant_id)s AND document_id = d.document_id AND generation = t.generation
          AND position > %(after)s
        ORDER BY position
        LIMIT %(limit)s) c ON true
 WHERE d.tenant_id = %(tenant_id)s AND d.external_id = %(external_id)s AND NOT d.superseded
   AND (d.acl = '{}' OR d.acl && %(groups)s)
 ORDER BY c.position;
