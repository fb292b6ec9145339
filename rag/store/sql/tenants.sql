-- name: insert_tenant
-- One row touched when the tenant is new, none when it exists.
INSERT INTO tenants (tenant_id, name) VALUES (%(tenant_id)s, %(name)s)
ON CONFLICT DO NOTHING;

-- name: delete_tenant
-- One row touched when the tenant existed; everything it had goes with it.
DELETE FROM tenants WHERE tenant_id = %(tenant_id)s;

-- name: tenant_state
-- The tenant's counters, in the order of TenantState's fields.
SELECT index_version, posted, dead, next_ord, appended, writes, langs FROM tenants WHERE tenant_id = %(tenant_id)s;

-- name: lock_tenant
-- The tenant's row, held until the transaction ends: one writer at a time gives ordinals and versions, while
-- uploads and new keys, which only refer to the tenant, pass.
SELECT next_ord FROM tenants WHERE tenant_id = %(tenant_id)s FOR NO KEY UPDATE;

-- name: count_change
-- One row touched: the tenant's counters after chunks came and went.
UPDATE tenants
   SET next_ord = next_ord + %(added)s, posted = posted + %(added)s, dead = dead + %(removed)s,
       appended = appended + %(added)s, writes = writes + 1, index_version = index_version + 1,
       langs = ARRAY(SELECT DISTINCT unnest(langs || %(langs)s::text[]) ORDER BY 1)
 WHERE tenant_id = %(tenant_id)s;

-- name: insert_key
-- One row touched.
INSERT INTO keys (tenant_id, key_id, secret_sha256, scopes, groups)
VALUES (%(tenant_id)s, %(key_id)s, %(secret_sha256)s, %(scopes)s, %(groups)s);

-- name: find_key
-- The hash, scopes and groups of a key that is not revoked.
SELECT secret_sha256, scopes, groups FROM keys
 WHERE tenant_id = %(tenant_id)s AND key_id = %(key_id)s AND revoked_at IS NULL;
