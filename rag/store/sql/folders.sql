-- name: folder_documents
-- The external ids and fingerprints of a folder's documents, without the versions before.
SELECT external_id, fingerprint FROM documents
 WHERE tenant_id = %(tenant_id)s AND folder = %(folder)s AND NOT superseded;

-- name: folder_uploads
-- The external ids of a folder's uploads that have not ended.
SELECT DISTINCT j.external_id
  FROM job_queue q JOIN jobs j ON j.tenant_id = q.tenant_id AND j.job_id = q.job_id
 WHERE q.tenant_id = %(tenant_id)s AND j.folder = %(folder)s AND j.state IN ('queued', 'running');

-- name: held_elsewhere
-- Those of the external ids that another folder has, or that came over HTTP; uploads that have not ended count too.
SELECT external_id, folder FROM documents
 WHERE tenant_id = %(tenant_id)s AND external_id = ANY(%(external_ids)s) AND NOT superseded
   AND folder IS DISTINCT FROM %(folder)s
 UNION ALL
SELECT j.external_id, j.folder
  FROM job_queue q JOIN jobs j ON j.tenant_id = q.tenant_id AND j.job_id = q.job_id
 WHERE q.tenant_id = %(tenant_id)s AND j.external_id = ANY(%(external_ids)s) AND j.state IN ('queued', 'running')
   AND j.folder IS DISTINCT FROM %(folder)s;

-- name: withdraw_uploads
-- The ids and external ids of a folder's uploads that had not ended: they are cancelled.
WITH open AS (
       SELECT job_id FROM jobs
        WHERE tenant_id = %(tenant_id)s AND document_id = ANY(%(document_ids)s) AND folder = %(folder)s
          AND state IN ('queued', 'running')
        ORDER BY job_id
          FOR UPDATE)
UPDATE jobs j SET state = 'cancelled', stage = 'cancelled', stage_at = now(), payload = NULL, finished_at = now()
  FROM open WHERE j.tenant_id = %(tenant_id)s AND j.job_id = open.job_id
RETURNING j.job_id, j.external_id;

-- name: folder_versions
-- Every version, by id and external id, of those of the documents whose current version is in the folder.
SELECT v.document_id, v.external_id
  FROM documents d JOIN documents v ON v.tenant_id = d.tenant_id AND v.external_id = d.external_id
 WHERE d.tenant_id = %(tenant_id)s AND d.external_id = ANY(%(external_ids)s) AND d.folder = %(folder)s
   AND NOT d.superseded;

-- name: delete_versions
-- One row touched for each of the versions.
DELETE FROM documents WHERE tenant_id = %(tenant_id)s AND document_id = ANY(%(document_ids)s);
