-- name: ask_upkeep
-- One row touched: a worker is to look after the tenant's indexes soon, or sooner than it was to.
INSERT INTO upkeep (tenant_id, due_at) VALUES (%(tenant_id)s, now() + make_interval(secs => %(delay_s)s))
ON CONFLICT (tenant_id) DO UPDATE SET due_at = least(upkeep.due_at, excluded.due_at);

-- name: claim_upkeep
-- A tenant that waits to be looked after, and until when it is the caller's. -- unscoped: every tenant that waits
UPDATE upkeep SET due_at = now() + make_interval(secs => %(lease_s)s)
 WHERE tenant_id = (
       SELECT tenant_id FROM upkeep WHERE due_at <= now() AND (%(only)s::uuid IS NULL OR tenant_id = %(only)s::uuid)
        ORDER BY due_at
        LIMIT 1
          FOR UPDATE SKIP LOCKED)
RETURNING tenant_id, due_at;

-- name: end_upkeep
-- One row touched when nobody has asked for more since.
DELETE FROM upkeep WHERE tenant_id = %(tenant_id)s AND due_at = %(due_at)s;
