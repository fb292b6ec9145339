-- name: find_answer
-- The answer kept under a key, while it is fresh.
SELECT body FROM answer_cache WHERE tenant_id = %(tenant_id)s AND key = %(key)s AND expires_at > now();

-- name: similar_answers
-- The fresh answers of one kin whose questions are nearest: question, cosine distance, answer.
SELECT question, embedding <=> %(vector)s AS distance, body FROM answer_cache
 WHERE tenant_id = %(tenant_id)s AND kin = %(kin)s AND expires_at > now() AND embedding IS NOT NULL
 ORDER BY distance, key
 LIMIT %(limit)s;

-- name: keep_answer
-- One row touched for each document when all of them still have the texts and headings that were read of them, none
-- otherwise. They stay so until the transaction ends. One that is being written now counts as changed: nobody waits, so
-- nobody waits for each other. What was made as of now is stale once one of them is no longer valid.
WITH read AS (
       SELECT * FROM unnest(%(document_ids)s::uuid[], %(chunk_ids)s::uuid[], %(headings)s::text[], %(starts)s::int[],
                            %(lengths)s::int[], %(digests)s::bytea[])
              AS r (document_id, chunk_id, headings, start, length, digest)),
     stored AS (
       SELECT document_id, title, valid_to, text FROM documents
        WHERE tenant_id = %(tenant_id)s AND document_id = ANY(%(document_ids)s)
          FOR SHARE SKIP LOCKED),
     unchanged AS (
       SELECT count(*) AS n, min(s.valid_to) AS valid_to FROM read r JOIN stored s ON s.document_id = r.document_id
        WHERE sha256(convert_to(substring(s.text, r.start + 1, r.length), 'UTF8')) = r.digest
          AND EXISTS (SELECT FROM chunks c
                       WHERE c.tenant_id = %(tenant_id)s AND c.document_id = r.document_id AND c.chunk_id = r.chunk_id
                         AND array_to_string(s.title || c.breadcrumb, chr(31)) = r.headings)),
     kept AS (
       INSERT INTO answer_cache (tenant_id, key, kin, question, embedding, body, size_bytes, expires_at)
       SELECT %(tenant_id)s, %(key)s, %(kin)s, %(question)s, %(vector)s::halfvec, %(body)s, %(size_bytes)s,
              least(now() + make_interval(secs => %(ttl_s)s), CASE WHEN NOT %(dated)s THEN valid_to END)
         FROM unchanged WHERE n = cardinality(%(document_ids)s::uuid[])
       ON CONFLICT (tenant_id, key) DO UPDATE
          SET question = excluded.question, embedding = excluded.embedding, body = excluded.body,
              size_bytes = excluded.size_bytes, created_at = now(), expires_at = excluded.expires_at
       RETURNING key)
INSERT INTO answer_sources (tenant_id, document_id, key)
SELECT DISTINCT %(tenant_id)s::uuid, r.document_id, kept.key FROM read r, kept
ON CONFLICT DO NOTHING;

-- name: lock_answers
-- Nothing of use: those who keep answers of a tenant take turns, so that the last of them sees what all have kept.
SELECT pg_advisory_xact_lock(hashtextextended(%(tenant_id)s::text, 2));

-- name: trim_answers
-- One row touched for each answer that is stale, or the oldest of too many. One that is being deleted or kept anew is
-- left to who does that: nobody waits here, so nobody waits for each other.
DELETE FROM answer_cache
 WHERE tenant_id = %(tenant_id)s AND key = ANY(ARRAY(
       SELECT key FROM answer_cache
        WHERE tenant_id = %(tenant_id)s AND key = ANY(ARRAY(
              SELECT key
                FROM (SELECT key, expires_at, sum(size_bytes) OVER (ORDER BY created_at DESC, key) AS upto
                        FROM answer_cache WHERE tenant_id = %(tenant_id)s) sized
               WHERE upto > %(most_bytes)s OR expires_at <= now()))
          FOR UPDATE SKIP LOCKED));

-- name: drop_stale_answers
-- One row touched for each answer that is stale, but for those that others hold.
DELETE FROM answer_cache
 WHERE tenant_id = %(tenant_id)s AND key = ANY(ARRAY(
       SELECT key FROM answer_cache WHERE tenant_id = %(tenant_id)s AND expires_at <= now() FOR UPDATE SKIP LOCKED));

-- name: forget_answers
-- One row touched for each answer that was made from one of the documents.
DELETE FROM answer_cache
 WHERE tenant_id = %(tenant_id)s AND key = ANY(ARRAY(
       SELECT key FROM answer_sources WHERE tenant_id = %(tenant_id)s AND document_id = ANY(%(document_ids)s)));
