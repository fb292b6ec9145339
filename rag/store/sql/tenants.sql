-- name: insert_tenant
-- One row touched when the tenant is new, none when it exists.
INSERT INTO tenants (tenant_id, name) VALUES (%(tenant_id)s, %(name)s)
ON CONFLICT DO NOTHING;

-- name: count_documents
-- How many documents the tenant has, without the versions before.
SELECT count(*) FROM documents WHERE tenant_id = %(tenant_id)s AND NOT superseded;

-- name: delete_tenant
-- One row touched when the tenant existed; everything it had goes with it.
DELETE FROM tenants WHERE tenant_id = %(tenant_id)s;

-- name: find_tenant
-- One row when there is such a tenant.
SELECT tenant_id FROM tenants WHERE tenant_id = %(tenant_id)s;

-- name: tenant_ranking
-- What the tenant's ranking has of its own; the row is held when it is about to change.
SELECT ranking FROM tenants WHERE tenant_id = %(tenant_id)s FOR NO KEY UPDATE;

-- name: set_ranking
-- One row touched: the tenant ranks differently from now on.
UPDATE tenants SET ranking = %(ranking)s, index_version = index_version + 1 WHERE tenant_id = %(tenant_id)s;

-- name: index_state
-- The current index, the one above it, or one by its number, in the order of IndexState's fields.
-- planned once: by key.
SELECT t.index_version, t.next_ord, i.generation, i.embedder, i.analyser, i.chunker, i.posted, i.dead, i.appended,
       i.writes, i.langs, i.graphed, t.ranking, t.numbering
  FROM tenants t JOIN indexes i ON i.tenant_id = t.tenant_id
 WHERE t.tenant_id = %(tenant_id)s AND i.tenant_id = %(tenant_id)s
   AND CASE WHEN %(next)s THEN i.generation > t.generation ELSE i.generation = coalesce(%(generation)s::int, t.generation) END
 ORDER BY i.generation DESC
 LIMIT 1;

-- name: lock_tenant
-- The tenant's row, held until the transaction ends: one writer at a time gives ordinals and versions, while
-- uploads and new keys, which only refer to the tenant, pass.
SELECT next_ord, generation FROM tenants WHERE tenant_id = %(tenant_id)s FOR NO KEY UPDATE;

-- name: open_index
-- One row touched when there was no such index yet: an empty one is made.
INSERT INTO indexes (tenant_id, generation, embedder, analyser, chunker)
VALUES (%(tenant_id)s, %(generation)s, %(embedder)s, %(analyser)s, %(chunker)s)
ON CONFLICT DO NOTHING;

-- name: recipe
-- What an index was made with, and whether its vectors are in the graph.
SELECT embedder, analyser, chunker, graphed FROM indexes WHERE tenant_id = %(tenant_id)s AND generation = %(generation)s;

-- name: give_ordinals
-- One row touched: the tenant has changed, and its next ordinal moves on.
UPDATE tenants SET next_ord = next_ord + %(added)s, index_version = index_version + 1
 WHERE tenant_id = %(tenant_id)s;

-- name: count_added
-- One row touched: an index's counters after chunks came.
UPDATE indexes
   SET posted = posted + %(added)s, appended = appended + %(added)s, writes = writes + 1,
       langs = ARRAY(SELECT DISTINCT unnest(langs || %(langs)s::text[]) ORDER BY 1)
 WHERE tenant_id = %(tenant_id)s AND generation = %(generation)s;

-- name: numbering
-- The tenant's next ordinal, how many chunks all its indexes have together, and how often it was numbered anew.
SELECT t.next_ord, coalesce((SELECT sum(posted - dead) FROM indexes WHERE tenant_id = %(tenant_id)s), 0)::bigint,
       t.numbering
  FROM tenants t WHERE t.tenant_id = %(tenant_id)s;

-- name: numbered_anew
-- One row touched: the next ordinal of a tenant whose chunks have other ones now.
UPDATE tenants SET next_ord = %(next_ord)s, numbering = numbering + 1, index_version = index_version + 1
 WHERE tenant_id = %(tenant_id)s;

-- name: insert_key
-- One row touched.
INSERT INTO keys (tenant_id, key_id, secret_sha256, scopes, groups)
VALUES (%(tenant_id)s, %(key_id)s, %(secret_sha256)s, %(scopes)s, %(groups)s);

-- name: find_key
-- The hash, scopes and groups of a key that is not revoked.
-- planned once: by key.
SELECT secret_sha256, scopes, groups FROM keys
 WHERE tenant_id = %(tenant_id)s AND key_id = %(key_id)s AND revoked_at IS NULL;

-- name: list_keys
-- The keys of the tenant without their secrets, the newest first.
SELECT key_id, scopes, groups, created_at, revoked_at FROM keys
 WHERE tenant_id = %(tenant_id)s
 ORDER BY created_at DESC, key_id;

-- name: revoke_key
-- One row touched when there is such a key: it is refused from now on.
UPDATE keys SET revoked_at = coalesce(revoked_at, now()) WHERE tenant_id = %(tenant_id)s AND key_id = %(key_id)s;

-- name: delete_key
-- One row touched when there was such a key.
DELETE FROM keys WHERE tenant_id = %(tenant_id)s AND key_id = %(key_id)s;
