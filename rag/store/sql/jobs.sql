-- name: lock_documents
-- Nothing of use: uploads of one document take turns, so the later one always supersedes the earlier.
SELECT pg_advisory_xact_lock(hashtextextended(%(tenant_id)s::text || d.id::text, 0))
  FROM (SELECT unnest(%(document_ids)s::uuid[]) AS id ORDER BY 1) d;

-- name: lock_idempotency_key
-- Nothing of use: requests with one key take turns, so the second finds what the first has done.
SELECT pg_advisory_xact_lock(hashtextextended(%(tenant_id)s::text || %(idempotency_key)s, 1));

-- name: find_request
-- The job that a request with this key has made, and the hash of that request.
SELECT job_id, document_id, request_sha256 FROM jobs
 WHERE tenant_id = %(tenant_id)s AND idempotency_key = %(idempotency_key)s;

-- name: supersede_jobs
-- The ids of the open jobs of the documents, which end here: a newer upload, or a deletion, takes their place.
WITH open AS (
       SELECT job_id FROM jobs
        WHERE tenant_id = %(tenant_id)s AND document_id = ANY(%(document_ids)s) AND state IN ('queued', 'running')
        ORDER BY job_id
          FOR UPDATE)
UPDATE jobs j SET state = 'cancelled', stage = 'superseded', stage_at = now(), payload = NULL, finished_at = now()
  FROM open WHERE j.tenant_id = %(tenant_id)s AND j.job_id = open.job_id
RETURNING j.job_id;

-- name: insert_job
-- One row touched. Its moment is not the transaction's: of two uploads, the one that waited for its turn is the newer.
INSERT INTO jobs (tenant_id, job_id, document_id, external_id, state, stage, created_at, stage_at, content_type, facets,
                  payload, folder, keep_history, run_id, idempotency_key, request_sha256)
VALUES (%(tenant_id)s, %(job_id)s, %(document_id)s, %(external_id)s, 'queued', 'queued', clock_timestamp(),
        clock_timestamp(), %(content_type)s, %(facets)s, %(payload)s, %(folder)s, %(keep_history)s, %(run_id)s,
        %(idempotency_key)s, %(request_sha256)s);

-- name: enqueue_jobs
-- One row touched for each job.
INSERT INTO job_queue (tenant_id, job_id, size_bytes)
SELECT %(tenant_id)s, q.job_id, q.size_bytes
  FROM unnest(%(job_ids)s::uuid[], %(sizes)s::bigint[]) AS q (job_id, size_bytes);

-- name: get_job
-- One job as its owner sees it, with how many of the tenant's jobs are before it while it waits.
SELECT j.job_id, j.document_id, j.external_id, j.state, j.stage, j.attempts, j.chunks, j.unchanged, j.warnings,
       j.error_code, j.error_detail, j.created_at, j.started_at, j.finished_at, j.stage_at, now(), j.chunks_done,
       j.chunks_total,
       CASE WHEN j.state = 'queued' THEN
            (SELECT count(*) FROM job_queue mine JOIN job_queue q ON q.tenant_id = mine.tenant_id
              WHERE mine.tenant_id = %(tenant_id)s AND mine.job_id = j.job_id
                AND (q.run_at, q.job_id) < (mine.run_at, mine.job_id)) END
  FROM jobs j WHERE j.tenant_id = %(tenant_id)s AND j.job_id = %(job_id)s;

-- name: list_jobs
-- The newest jobs of the tenant in a state, or in any, in the order of Job's fields; how many are before them is not said.
SELECT job_id, document_id, external_id, state, stage, attempts, chunks, unchanged, warnings, error_code, error_detail,
       created_at, started_at, finished_at, stage_at, now(), chunks_done, chunks_total, NULL
  FROM jobs
 WHERE tenant_id = %(tenant_id)s AND state = coalesce(%(state)s::text, state)
 ORDER BY created_at DESC, job_id
 LIMIT %(limit)s;

-- name: newest_job
-- The id of the newest job of a document.
SELECT job_id FROM jobs WHERE tenant_id = %(tenant_id)s AND document_id = %(document_id)s
 ORDER BY created_at DESC, job_id LIMIT 1;

-- name: claim_jobs
-- The tenant and ids of jobs whose turn it is, leased to the caller, and how often they have been claimed: those of one
-- tenant that were never tried, as many as fit a batch, or one alone that was tried before, so that it takes no other
-- down. Should their worker die, they come after all that waits by now. -- unscoped: every tenant's queue
WITH head AS (
       SELECT tenant_id, job_id, tries FROM job_queue
        WHERE run_at <= now() AND (leased_until IS NULL OR leased_until < now())
          AND (%(only)s::uuid IS NULL OR tenant_id = %(only)s::uuid)
        ORDER BY run_at, job_id
        LIMIT 1
          FOR UPDATE SKIP LOCKED),
     rest AS (
       SELECT q.tenant_id, q.job_id, q.run_at, q.size_bytes FROM job_queue q JOIN head h ON q.tenant_id = h.tenant_id
        WHERE h.tries = 0 AND q.tries = 0 AND q.job_id <> h.job_id
          AND q.run_at <= now() AND (q.leased_until IS NULL OR q.leased_until < now())
        ORDER BY q.run_at, q.job_id
        LIMIT %(most_jobs)s - 1
          FOR UPDATE OF q SKIP LOCKED),
     batch AS (
       SELECT tenant_id, job_id FROM head
       UNION ALL
       SELECT tenant_id, job_id
         FROM (SELECT *, sum(size_bytes) OVER (ORDER BY run_at, job_id) AS upto FROM rest) sized
        WHERE upto <= %(most_bytes)s)
UPDATE job_queue q SET leased_until = now() + make_interval(secs => %(lease_s)s), tries = q.tries + 1, run_at = now()
  FROM batch WHERE q.tenant_id = batch.tenant_id AND q.job_id = batch.job_id
RETURNING q.tenant_id, q.job_id, q.tries;

-- name: extend_leases
-- The ids of those jobs that are still the caller's. What is locked is being ended. -- unscoped: the worker's own leases
WITH mine AS (
       SELECT job_id FROM job_queue
        WHERE tenant_id = %(tenant)s AND job_id = ANY(%(job_ids)s) AND tries = %(tries)s
          FOR UPDATE SKIP LOCKED)
UPDATE job_queue q SET leased_until = now() + make_interval(secs => %(lease_s)s)
  FROM mine WHERE q.tenant_id = %(tenant)s AND q.job_id = mine.job_id
RETURNING q.job_id;

-- name: begin_jobs
-- The jobs' work, of those that have not ended meanwhile, nor been claimed by another. The queue's rows are locked too:
-- whoever waited here for the other's commit must see its claim.
WITH open AS (
       SELECT j.job_id FROM jobs j JOIN job_queue q ON q.tenant_id = j.tenant_id AND q.job_id = j.job_id
        WHERE j.tenant_id = %(tenant_id)s AND j.job_id = ANY(%(job_ids)s) AND j.state IN ('queued', 'running')
          AND q.tries = %(tries)s
        ORDER BY j.job_id
          FOR UPDATE)
UPDATE jobs j SET state = 'running', stage = 'parsing', stage_at = now(), attempts = attempts + 1, chunks_done = 0,
       chunks_total = NULL, started_at = coalesce(started_at, now())
  FROM open WHERE j.tenant_id = %(tenant_id)s AND j.job_id = open.job_id
RETURNING j.job_id, attempts, external_id, content_type, facets, payload, folder, keep_history;

-- name: show_progress
-- The ids of those of the jobs that still run in this attempt; each is then shown at its stage, with its counts.
WITH running AS (
       SELECT jobs.job_id, p.stage, p.done, p.total
         FROM jobs JOIN unnest(%(job_ids)s::uuid[], %(attempts)s::int[], %(stages)s::text[], %(done)s::int[],
                               %(totals)s::int[]) AS p (job_id, attempt, stage, done, total) USING (job_id)
        WHERE jobs.tenant_id = %(tenant_id)s AND jobs.state = 'running' AND jobs.attempts = p.attempt
        ORDER BY jobs.job_id
          FOR UPDATE OF jobs)
UPDATE jobs j SET stage = r.stage, chunks_done = r.done, chunks_total = r.total,
       stage_at = CASE WHEN j.stage = r.stage THEN j.stage_at ELSE now() END
  FROM running r WHERE j.tenant_id = %(tenant_id)s AND j.job_id = r.job_id
RETURNING j.job_id;

-- name: end_job
-- One row touched when the job had not ended before, nor begun another attempt than this one, if one is given.
UPDATE jobs
   SET state = %(state)s, stage = %(state)s, stage_at = now(), chunks = %(chunks)s, unchanged = %(unchanged)s,
       chunks_done = coalesce(%(chunks)s, chunks_done), chunks_total = coalesce(chunks_total, %(chunks)s),
       warnings = %(warnings)s, error_code = %(error_code)s, error_detail = %(error_detail)s, payload = NULL,
       finished_at = now()
 WHERE tenant_id = %(tenant_id)s AND job_id = %(job_id)s AND state IN ('queued', 'running')
   AND attempts = coalesce(%(attempt)s::int, attempts);

-- name: retry_job
-- One row touched when the job still runs in this attempt: it waits for its next one, *counted* being those it had.
UPDATE jobs SET state = 'queued', stage = 'waiting to try again', stage_at = now(), attempts = %(counted)s,
       error_code = %(error_code)s, error_detail = %(error_detail)s
 WHERE tenant_id = %(tenant_id)s AND job_id = %(job_id)s AND state = 'running' AND attempts = %(attempt)s;

-- name: postpone_job
-- One row touched: not before *delay_s* from now, and as if it had been claimed *uncounted* times less.
UPDATE job_queue SET run_at = now() + make_interval(secs => %(delay_s)s), leased_until = NULL,
       tries = tries - %(uncounted)s
 WHERE tenant_id = %(tenant_id)s AND job_id = %(job_id)s;

-- name: unbegin_job
-- One row touched when the job still runs in this attempt: it is queued again and the attempt not counted.
UPDATE jobs SET state = 'queued', stage = 'queued', stage_at = now(), attempts = attempts - 1
 WHERE tenant_id = %(tenant_id)s AND job_id = %(job_id)s AND state = 'running' AND attempts = %(attempt)s;

-- name: unclaim_jobs
-- One row touched for each job that nobody has claimed since: their turn is now, and this claim is not counted.
UPDATE job_queue SET run_at = now(), leased_until = NULL, tries = tries - 1
 WHERE tenant_id = %(tenant_id)s AND job_id = ANY(%(job_ids)s) AND tries = %(tries)s;

-- name: dequeue_jobs
-- One row touched for each of the jobs that was in the queue.
DELETE FROM job_queue WHERE tenant_id = %(tenant_id)s AND job_id = ANY(%(job_ids)s);

-- name: dequeue_ended_jobs
-- One row touched for each of the jobs that was in the queue though it has ended.
DELETE FROM job_queue q USING jobs j
 WHERE q.tenant_id = %(tenant_id)s AND q.job_id = ANY(%(job_ids)s)
   AND j.tenant_id = q.tenant_id AND j.job_id = q.job_id AND j.state NOT IN ('queued', 'running');

-- name: run_progress
-- How many jobs of a run are in each state, how many of them had nothing to do, and their chunks so far.
SELECT state, count(*), count(unchanged), coalesce(sum(CASE WHEN state = 'done' THEN chunks ELSE chunks_done END), 0)
  FROM jobs WHERE tenant_id = %(tenant_id)s AND run_id = %(run_id)s
 GROUP BY state;

-- name: run_remarks
-- The jobs of a run that failed or have warnings.
SELECT external_id, state, error_code, error_detail, warnings FROM jobs
 WHERE tenant_id = %(tenant_id)s AND run_id = %(run_id)s AND (state = 'failed' OR warnings <> '{}')
 ORDER BY external_id;

-- name: prune_jobs
-- One row touched for each of the jobs that ended too long ago to be asked for.
DELETE FROM jobs
 WHERE tenant_id = %(tenant_id)s
   AND job_id IN (SELECT job_id FROM jobs
                   WHERE tenant_id = %(tenant_id)s AND finished_at < now() - make_interval(days => %(keep_days)s)
                   LIMIT %(most)s);
