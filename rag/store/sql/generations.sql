-- name: indexes
-- The current index's number, then each index with its recipe, the lowest first; no row before the first write.
SELECT t.generation, i.generation, i.embedder, i.analyser, i.chunker
  FROM tenants t JOIN indexes i ON i.tenant_id = t.tenant_id
 WHERE t.tenant_id = %(tenant_id)s AND i.tenant_id = %(tenant_id)s
 ORDER BY i.generation;

-- name: count_missing
-- How many documents an index lacks.
SELECT count(*) FROM documents WHERE tenant_id = %(tenant_id)s AND NOT %(generation)s = ANY(generations);

-- name: without_blocks
-- The documents that an index lacks and that cannot be cut anew: without blocks, and cut another way before.
SELECT DISTINCT external_id FROM documents
 WHERE tenant_id = %(tenant_id)s AND NOT %(generation)s = ANY(generations) AND blocks IS NULL
   AND NOT EXISTS (SELECT 1
                     FROM indexes old JOIN indexes new ON new.tenant_id = old.tenant_id AND new.chunker = old.chunker
                    WHERE old.tenant_id = %(tenant_id)s AND old.generation = ANY(generations)
                      AND new.generation = %(generation)s)
 ORDER BY external_id;

-- name: without_any_vector
-- The documents that have chunks in an index and not one of them a vector.
SELECT DISTINCT external_id
  FROM (SELECT d.external_id
          FROM documents d
          JOIN chunks c ON c.tenant_id = d.tenant_id AND c.document_id = d.document_id
          LEFT JOIN embeddings e ON e.tenant_id = c.tenant_id AND e.ord = c.ord AND e.tenant_id = %(tenant_id)s
         WHERE d.tenant_id = %(tenant_id)s AND c.tenant_id = %(tenant_id)s AND c.generation = %(generation)s
         GROUP BY d.document_id, d.external_id
        HAVING count(e.ord) = 0) unfound
 ORDER BY external_id;

-- name: cut_before
-- The chunks of a document as an index of the same chunker has them, in the order of Draft's fields.
SELECT c.position, c.char_start, c.char_end, c.section_start, c.section_end, c.breadcrumb, c.kind, c.text, c.indexed
  FROM chunks c
 WHERE c.tenant_id = %(tenant_id)s AND c.document_id = %(document_id)s
   AND c.generation = (SELECT max(old.generation)
                         FROM documents d
                         JOIN indexes old ON old.tenant_id = d.tenant_id AND old.generation = ANY(d.generations)
                         JOIN indexes new ON new.tenant_id = old.tenant_id AND new.chunker = old.chunker
                        WHERE d.tenant_id = %(tenant_id)s AND d.document_id = %(document_id)s
                          AND new.generation = %(generation)s)
 ORDER BY c.position;

-- name: missing_documents
-- The next documents that an index lacks, as many as fit a batch, at least one.
SELECT document_id, external_id, fingerprint, text, blocks, title, doc_type, source, lang, tags, metadata, acl,
       valid_from, valid_to
  FROM (SELECT *, sum(octet_length(text)) OVER (ORDER BY document_id) - octet_length(text) AS before
          FROM (SELECT * FROM documents
                 WHERE tenant_id = %(tenant_id)s AND (%(after)s::uuid IS NULL OR document_id > %(after)s)
                   AND NOT %(generation)s = ANY(generations)
                 ORDER BY document_id
                 LIMIT %(most)s) page) sized
 WHERE before < %(most_bytes)s
 ORDER BY document_id;

-- name: join_index
-- The ids of those of the documents that are still as they were prepared, and not yet in that index.
UPDATE documents SET generations = generations || %(generation)s::int
  FROM unnest(%(document_ids)s::uuid[], %(fingerprints)s::bytea[]) AS p (id, of)
 WHERE documents.tenant_id = %(tenant_id)s AND document_id = p.id AND fingerprint = p.of
   AND NOT %(generation)s = ANY(generations)
RETURNING document_id;

-- name: recount_documents
-- One row touched for each document of which another index has other chunks with and without a vector.
WITH counted AS (
       SELECT d.document_id, count(e.ord) AS embedded,
              coalesce(jsonb_agg(jsonb_build_object('start', c.char_start, 'end', c.char_end, 'reason', coalesce(
                (SELECT q ->> 'reason' FROM jsonb_array_elements(d.quarantined) q
                  WHERE (q ->> 'start')::int = c.char_start AND (q ->> 'end')::int = c.char_end LIMIT 1),
                'the embedder refused it')) ORDER BY c.position)
                FILTER (WHERE c.ord IS NOT NULL AND e.ord IS NULL), '[]') AS refused
         FROM documents d
         LEFT JOIN chunks c ON c.tenant_id = d.tenant_id AND c.document_id = d.document_id
                           AND c.tenant_id = %(tenant_id)s AND c.generation = %(generation)s
         LEFT JOIN embeddings e ON e.tenant_id = c.tenant_id AND e.ord = c.ord AND e.tenant_id = %(tenant_id)s
        WHERE d.tenant_id = %(tenant_id)s
        GROUP BY d.document_id, d.quarantined)
UPDATE documents d SET chunk_count = n.embedded, quarantined = n.refused
  FROM counted n
 WHERE d.tenant_id = %(tenant_id)s AND d.document_id = n.document_id
   AND (d.chunk_count, d.quarantined) IS DISTINCT FROM (n.embedded, n.refused);

-- name: switch_index
-- One row touched: questions go to that index from now on.
UPDATE tenants SET generation = %(generation)s, index_version = index_version + 1 WHERE tenant_id = %(tenant_id)s;

-- name: leave_index
-- The ids of the next documents that were in an index and no longer are.
UPDATE documents SET generations = array_remove(generations, %(generation)s::int)
 WHERE tenant_id = %(tenant_id)s AND document_id IN (
       SELECT document_id FROM documents
        WHERE tenant_id = %(tenant_id)s AND (%(after)s::uuid IS NULL OR document_id > %(after)s)
          AND %(generation)s = ANY(generations)
        ORDER BY document_id
        LIMIT %(most)s)
RETURNING document_id;

-- name: delete_chunks_of_index
-- One row touched: the documents' chunks are gone from one index, their vectors with them, and counted as dead.
WITH gone AS (
       DELETE FROM chunks
        WHERE tenant_id = %(tenant_id)s AND document_id = ANY(%(document_ids)s) AND generation = %(generation)s
       RETURNING 1)
UPDATE indexes SET dead = dead + (SELECT count(*) FROM gone)
 WHERE tenant_id = %(tenant_id)s AND generation = %(generation)s;

-- name: delete_some_postings
-- One row touched for each of some blocks of an index.
DELETE FROM postings
 WHERE tenant_id = %(tenant_id)s AND generation = %(generation)s AND (term, block) IN (
       SELECT term, block FROM postings WHERE tenant_id = %(tenant_id)s AND generation = %(generation)s LIMIT %(most)s);

-- name: delete_index
-- One row touched.
DELETE FROM indexes WHERE tenant_id = %(tenant_id)s AND generation = %(generation)s;
