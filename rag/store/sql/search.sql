-- name: posting_blocks
-- The posting blocks of terms.
SELECT term, ords, weights FROM postings
 WHERE tenant_id = %(tenant_id)s AND generation = %(generation)s AND term = ANY(%(terms)s);

-- name: partition_rows
-- The estimated rows of the partition that holds the tenant's vectors, -1 before the first ANALYZE.
SELECT c.reltuples::bigint FROM pg_class c
 WHERE c.oid = (SELECT e.tableoid FROM embeddings e WHERE e.tenant_id = %(tenant_id)s LIMIT 1);

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

-- name: posting_rows
-- How many posting blocks an index has.
SELECT count(*) FROM postings WHERE tenant_id = %(tenant_id)s AND generation = %(generation)s;

-- name: compacted
-- One row touched: the counters once dead ordinals are out of the postings.
UPDATE indexes SET posted = %(live)s, dead = 0, appended = 0, writes = 0
 WHERE tenant_id = %(tenant_id)s AND generation = %(generation)s;
