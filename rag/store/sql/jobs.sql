-- name: insert_job
-- One row touched.
INSERT INTO jobs (tenant_id, job_id, document_id, external_id, state, stage, content_type, facets, payload)
VALUES (%(tenant_id)s, %(job_id)s, %(document_id)s, %(external_id)s, 'queued', 'queued', %(content_type)s, %(facets)s,
        %(payload)s);

-- name: enqueue_job
-- One row touched.
INSERT INTO job_queue (tenant_id, job_id) VALUES (%(tenant_id)s, %(job_id)s);

-- name: lock_document
-- Nothing of use: uploads of one document take turns, so the later one always supersedes the earlier.
SELECT pg_advisory_xact_lock(hashtextextended(%(tenant_id)s::text || %(document_id)s::text, 0));

-- name: supersede_jobs
-- One row touched for each open job of the document: the newer upload takes its place.
UPDATE jobs SET state = 'cancelled', stage = 'superseded', payload = NULL, finished_at = now()
 WHERE tenant_id = %(tenant_id)s AND document_id = %(document_id)s AND state IN ('queued', 'running');

-- name: get_job
-- One job as its owner sees it.
SELECT job_id, document_id, external_id, state, stage, attempts, chunks, unchanged, error_code, error_detail,
       created_at, started_at, finished_at
  FROM jobs WHERE tenant_id = %(tenant_id)s AND job_id = %(job_id)s;

-- name: claim_job
-- The tenant and id of one job whose turn it is, leased to the caller. -- unscoped: workers serve every tenant
UPDATE job_queue SET leased_until = now() + make_interval(secs => %(lease_s)s)
 WHERE (tenant_id, job_id) = (
       SELECT tenant_id, job_id FROM job_queue
        WHERE run_at <= now() AND (leased_until IS NULL OR leased_until < now())
        ORDER BY run_at, job_id
        LIMIT 1
          FOR UPDATE SKIP LOCKED)
RETURNING tenant_id, job_id;

-- name: extend_lease
-- The job's id while it is still in the queue. -- unscoped: the worker's own lease
UPDATE job_queue SET leased_until = now() + make_interval(secs => %(lease_s)s)
 WHERE tenant_id = %(tenant)s AND job_id = %(job_id)s
RETURNING job_id;

-- name: begin_job
-- The job's work, when it has not ended meanwhile.
UPDATE jobs SET state = 'running', stage = 'parsing', attempts = attempts + 1, started_at = coalesce(started_at, now())
 WHERE tenant_id = %(tenant_id)s AND job_id = %(job_id)s AND state IN ('queued', 'running')
RETURNING external_id, content_type, facets, payload, attempts;

-- name: set_stage
-- One row touched while the job runs.
UPDATE jobs SET stage = %(stage)s WHERE tenant_id = %(tenant_id)s AND job_id = %(job_id)s AND state = 'running';

-- name: end_job
-- One row touched when the job had not ended before.
UPDATE jobs
   SET state = %(state)s, stage = %(state)s, chunks = %(chunks)s, unchanged = %(unchanged)s,
       error_code = %(error_code)s, error_detail = %(error_detail)s, payload = NULL, finished_at = now()
 WHERE tenant_id = %(tenant_id)s AND job_id = %(job_id)s AND state IN ('queued', 'running');

-- name: retry_job
-- One row touched: the job waits for its next attempt.
UPDATE jobs SET state = 'queued', stage = 'waiting to try again', error_code = %(error_code)s,
       error_detail = %(error_detail)s
 WHERE tenant_id = %(tenant_id)s AND job_id = %(job_id)s AND state = 'running';

-- name: unbegin_job
-- One row touched: the job is queued again and the attempt not counted.
UPDATE jobs SET state = 'queued', stage = 'queued', attempts = attempts - 1
 WHERE tenant_id = %(tenant_id)s AND job_id = %(job_id)s AND state = 'running';

-- name: postpone_job
-- One row touched: not before *delay_s* from now.
UPDATE job_queue SET run_at = now() + make_interval(secs => %(delay_s)s), leased_until = NULL
 WHERE tenant_id = %(tenant_id)s AND job_id = %(job_id)s;

-- name: dequeue_job
-- One row touched when the job was in the queue.
DELETE FROM job_queue WHERE tenant_id = %(tenant_id)s AND job_id = %(job_id)s;
