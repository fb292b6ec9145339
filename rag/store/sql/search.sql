-- name: posting_blocks
-- The posting blocks of terms.
-- planned once: by key.
SELECT term, ords, weights FROM postings
 WHERE tenant_id = %(tenant_id)s AND generation = %(generation)s AND term = ANY(%(terms)s);

-- name: known_vectors
-- The vectors that an index has already, by content.
-- planned once: by key.
SELECT DISTINCT ON (c.content) c.content, e.embedding
  FROM chunks c JOIN embeddings e ON e.tenant_id = c.tenant_id AND e.ord = c.ord
 WHERE c.tenant_id = %(tenant_id)s AND e.tenant_id = %(tenant_id)s AND c.generation = %(generation)s
   AND c.content = ANY(%(contents)s);

-- name: partition_rows
-- The estimated rows of the partition that holds the tenant's graph, -1 before the first ANALYZE.
SELECT c.reltuples::bigint FROM pg_class c
 WHERE c.oid = (SELECT n.tableoid FROM neighbours n WHERE n.tenant_id = %(tenant_id)s LIMIT 1);

-- name: add_neighbours
-- One row touched for each vector of an index that was put into the graph, the next ones by ordinal.
INSERT INTO neighbours (tenant_id, ord, embedding)
SELECT e.tenant_id, e.ord, e.embedding
  FROM embeddings e JOIN chunks c ON c.tenant_id = e.tenant_id AND c.ord = e.ord
 WHERE e.tenant_id = %(tenant_id)s AND c.tenant_id = %(tenant_id)s AND c.generation = %(generation)s
   AND e.ord > coalesce((SELECT n.ord FROM neighbours n JOIN chunks g ON g.tenant_id = n.tenant_id AND g.ord = n.ord
                          WHERE n.tenant_id = %(tenant_id)s AND g.tenant_id = %(tenant_id)s
                            AND g.generation = %(generation)s
                          ORDER BY n.ord DESC
                          LIMIT 1), -1)
 ORDER BY e.ord
 LIMIT %(limit)s
ON CONFLICT DO NOTHING;

-- name: graphed
-- One row touched: the index's vectors are all in the graph, and those that come will be.
UPDATE indexes SET graphed = true WHERE tenant_id = %(tenant_id)s AND generation = %(generation)s;

-- name: all_postings
-- Every posting block of a range of terms, for compaction.
SELECT term, ords, weights FROM postings
 WHERE tenant_id = %(tenant_id)s AND generation = %(generation)s AND term >= %(low)s AND term <= %(high)s
 ORDER BY term, block;

-- name: delete_postings
-- One row touched for each block of a range of terms.
DELETE FROM postings
 WHERE tenant_id = %(tenant_id)s AND generation = %(generation)s AND term >= %(low)s AND term <= %(high)s;

-- name: live_ords
-- The ordinals of every chunk in an index.
SELECT ord FROM chunks WHERE tenant_id = %(tenant_id)s AND generation = %(generation)s ORDER BY ord;

-- name: all_ords
-- The ordinals of every chunk of the tenant.
SELECT ord FROM chunks WHERE tenant_id = %(tenant_id)s ORDER BY ord;

-- name: let_plans_last
-- Foreign keys are checked row by row: one plan for all of them, until the transaction ends. -- unscoped: reads no rows
SELECT set_config('plan_cache_mode', 'auto', true);

-- name: stage_moved
-- One row touched for each chunk of a range of ordinals, staged with those from *first* on, in the same order.
INSERT INTO staged_chunks
SELECT c.chunk_id, c.document_id, c.generation, c.content, %(first)s - 1 + row_number() OVER (ORDER BY c.ord),
       c.position, c.kind, c.breadcrumb, c.char_start, c.char_end, c.section_start, c.section_end, c.text, c.indexed,
       e.embedding
  FROM chunks c LEFT JOIN embeddings e ON e.tenant_id = c.tenant_id AND e.ord = c.ord AND e.tenant_id = %(tenant_id)s
 WHERE c.tenant_id = %(tenant_id)s AND c.ord BETWEEN %(low)s AND %(high)s;

-- name: delete_moved
-- One row touched for each chunk of a range of ordinals; their vectors go with them.
DELETE FROM chunks WHERE tenant_id = %(tenant_id)s AND ord BETWEEN %(low)s AND %(high)s;

-- name: unstage
-- Nothing. -- unscoped: a table that this connection alone sees
TRUNCATE staged_chunks;

-- name: ungraph
-- One row touched for each index whose vectors are no longer all in the graph.
UPDATE indexes SET graphed = false WHERE tenant_id = %(tenant_id)s AND graphed;

-- name: posting_rows
-- How many posting blocks an index has.
SELECT count(*) FROM postings WHERE tenant_id = %(tenant_id)s AND generation = %(generation)s;

-- name: compacted
-- One row touched: the counters once dead ordinals are out of the postings.
UPDATE indexes SET dead = 0, appended = 0, writes = 0,
       posted = (SELECT count(*) FROM chunks WHERE tenant_id = %(tenant_id)s AND generation = %(generation)s)
 WHERE tenant_id = %(tenant_id)s AND generation = %(generation)s;
