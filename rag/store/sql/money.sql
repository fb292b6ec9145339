-- name: reserve
-- Each budget of the tenant as it was before the call, with what the call may take of it and whether that fits; null
-- where its price is not known. When it fits into every budget, it is reserved in every one, else in none.
-- A reservation lost with the server's memory is one of a call that was lost with it: nothing waits for the disk.
WITH judged AS MATERIALIZED (
       SELECT b.unit, b.period, b.amount, b.reserved, w.window_start, w.resets_at, wanted.amount AS wanted,
              CASE WHEN w.window_start > b.window_start THEN 0 ELSE b.spent END AS spent,
              CASE WHEN w.window_start > b.window_start THEN 0 ELSE b.spent END
              + b.reserved + wanted.amount <= b.amount AS fits
         FROM budgets b,
      LATERAL (SELECT CASE WHEN b.period = 'prepaid' THEN b.window_start
                      ELSE greatest(b.window_start, date_trunc(b.period, now(), 'UTC')) END AS window_start,
                      CASE WHEN b.period <> 'prepaid' THEN
                      date_add(date_trunc(b.period, now(), 'UTC'), ('1 ' || b.period)::interval, 'UTC') END AS resets_at) w,
      LATERAL (SELECT CASE b.unit WHEN 'tokens' THEN %(tokens)s::numeric ELSE %(money)s::numeric END AS amount) wanted
        WHERE b.tenant_id = %(tenant_id)s
        ORDER BY b.unit, b.period
          FOR UPDATE OF b),
     taken AS (
       UPDATE budgets b SET spent = j.spent, reserved = b.reserved + j.wanted, window_start = j.window_start
         FROM judged j
        WHERE b.tenant_id = %(tenant_id)s AND b.unit = j.unit AND b.period = j.period
          AND (SELECT bool_and(coalesce(fits, false)) FROM judged)
       RETURNING b.unit, b.period, j.wanted),
     noted AS (
       INSERT INTO reservations AS r (tenant_id, operation_id, unit, period, amount, expires_at)
       SELECT %(tenant_id)s, %(operation_id)s, unit, period, wanted, now() + make_interval(secs => %(lasts_s)s)
         FROM taken
       ON CONFLICT (tenant_id, operation_id, unit, period)
       DO UPDATE SET amount = r.amount + excluded.amount, expires_at = greatest(r.expires_at, excluded.expires_at))
SELECT unit, period, amount, spent, reserved, resets_at, wanted, fits, set_config('synchronous_commit', 'off', true)
  FROM judged
 ORDER BY unit, period;

-- name: settle
-- The attempts that were not in the ledger before, and are now; of each budget, what they used is spent, and what was
-- reserved for their calls is free. Budgets are locked first and in one order, as wherever they change.
WITH locked AS MATERIALIZED (
       SELECT unit, period FROM budgets WHERE tenant_id = %(tenant_id)s ORDER BY unit, period FOR UPDATE),
     attempts AS (
       SELECT DISTINCT ON (operation_id, attempt) *
         FROM unnest(%(operations)s::uuid[], %(features)s::text[], %(tasks)s::text[], %(attempts)s::int[],
                     %(targets)s::text[], %(providers)s::text[], %(models)s::text[], %(outcomes)s::text[],
                     %(reasons)s::text[], %(inputs_uncached)s::bigint[], %(inputs_cache_read)s::bigint[],
                     %(inputs_cache_write)s::bigint[], %(outputs)s::bigint[], %(reasonings)s::bigint[],
                     %(estimated)s::bool[], %(clamped)s::bool[], %(first_content_ms)s::float8[],
                     %(total_ms)s::float8[], %(money)s::numeric[])
           AS a (operation_id, feature, task, attempt, target, provider, model, outcome, reason, input_uncached,
                 input_cache_read, input_cache_write, output, reasoning, estimated, clamped, first_content_ms, total_ms,
                 money)),
     written AS (
       INSERT INTO ledger (tenant_id, operation_id, feature, task, attempt, target, provider, model, outcome, reason,
                           input_uncached, input_cache_read, input_cache_write, output, reasoning, estimated, clamped,
                           first_content_ms, total_ms)
       SELECT %(tenant_id)s, a.operation_id, a.feature, a.task, a.attempt, a.target, a.provider, a.model, a.outcome,
              a.reason, a.input_uncached, a.input_cache_read, a.input_cache_write, a.output, a.reasoning, a.estimated,
              a.clamped, a.first_content_ms, a.total_ms
         FROM attempts a, (SELECT count(*) FROM locked) AS first
       ON CONFLICT DO NOTHING
       RETURNING operation_id, attempt),
     used AS (
       SELECT coalesce(sum(coalesce(a.input_uncached, 0) + coalesce(a.input_cache_read, 0)
                           + coalesce(a.input_cache_write, 0) + coalesce(a.output, 0)), 0) AS tokens,
              coalesce(sum(a.money), 0) AS money
         FROM attempts a JOIN written USING (operation_id, attempt)),
     gone AS (
       DELETE FROM reservations r USING (SELECT count(*) FROM locked) AS first
        WHERE r.tenant_id = %(tenant_id)s AND r.operation_id = ANY(%(settled)s::uuid[])
       RETURNING r.unit, r.period, r.amount),
     freed AS (
       SELECT unit, period, sum(amount) AS amount FROM gone GROUP BY unit, period),
     charged AS (
       UPDATE budgets b
          SET spent = CASE WHEN w.window_start > b.window_start THEN 0 ELSE b.spent END
                      + CASE b.unit WHEN 'tokens' THEN u.tokens ELSE u.money END,
              reserved = b.reserved - coalesce(f.amount, 0),
              window_start = greatest(b.window_start, w.window_start)
         FROM locked l
              LEFT JOIN freed f ON f.unit = l.unit AND f.period = l.period
              CROSS JOIN used u
              CROSS JOIN LATERAL (SELECT CASE WHEN l.period = 'prepaid' THEN NULL
                                         ELSE date_trunc(l.period, now(), 'UTC') END AS window_start) w
        WHERE b.tenant_id = %(tenant_id)s AND b.unit = l.unit AND b.period = l.period)
SELECT operation_id, attempt FROM written;

-- name: reap_reservations
-- How many reservations of the tenant have outlived their calls; what they held is free.
WITH locked AS MATERIALIZED (
       SELECT unit, period FROM budgets WHERE tenant_id = %(tenant_id)s ORDER BY unit, period FOR UPDATE),
     gone AS (
       DELETE FROM reservations r USING (SELECT count(*) FROM locked) AS first
        WHERE r.tenant_id = %(tenant_id)s AND r.expires_at < now()
       RETURNING r.unit, r.period, r.amount),
     freed AS (
       UPDATE budgets b SET reserved = b.reserved - g.amount
         FROM (SELECT unit, period, sum(amount) AS amount FROM gone GROUP BY unit, period) g
        WHERE b.tenant_id = %(tenant_id)s AND b.unit = g.unit AND b.period = g.period)
SELECT count(*) FROM gone;

-- name: put_budget
-- One row touched: the budget has this amount, and what it had spent and reserved.
INSERT INTO budgets (tenant_id, unit, period, amount, window_start)
VALUES (%(tenant_id)s, %(unit)s, %(period)s, %(amount)s,
        CASE WHEN %(period)s = 'prepaid' THEN now() ELSE date_trunc(%(period)s, now(), 'UTC') END)
ON CONFLICT (tenant_id, unit, period) DO UPDATE SET amount = excluded.amount;

-- name: delete_budget
-- One row touched when there was such a budget; its reservations go with it.
DELETE FROM budgets WHERE tenant_id = %(tenant_id)s AND unit = %(unit)s AND period = %(period)s;

-- name: list_budgets
-- The tenant's budgets in the order of Budget's fields, as of now: a window that is over has spent nothing.
SELECT b.unit, b.period, b.amount,
       CASE WHEN b.period <> 'prepaid' AND b.window_start < date_trunc(b.period, now(), 'UTC') THEN 0
       ELSE b.spent END,
       b.reserved,
       CASE WHEN b.period <> 'prepaid' THEN date_add(date_trunc(b.period, now(), 'UTC'), ('1 ' || b.period)::interval, 'UTC') END
  FROM budgets b WHERE b.tenant_id = %(tenant_id)s
 ORDER BY b.unit, b.period;

-- name: ledger_sums
-- Tokens by class of attempts that have one price: one model at one target, half an hour, and one step of tiers by
-- the size of the input (*steps* are the first sizes of each), under the keys that were asked for. Those whose tokens
-- nobody knows are apart, and so are those that used none: they cost nothing.
SELECT CASE WHEN %(by_feature)s THEN feature ELSE '' END, CASE WHEN %(by_model)s THEN provider || '/' || model ELSE '' END,
       CASE WHEN %(by_day)s THEN date_trunc('day', settled_at, 'UTC') END, target, provider, model,
       date_bin('30 minutes', settled_at, '2000-01-01T00:00Z'), max(input), count(*),
       coalesce(sum(input_uncached), 0)::bigint, coalesce(sum(input_cache_read), 0)::bigint,
       coalesce(sum(input_cache_write), 0)::bigint, coalesce(sum(output), 0)::bigint,
       coalesce(sum(reasoning), 0)::bigint, count(*) FILTER (WHERE estimated), input_uncached IS NULL OR output IS NULL
  FROM ledger,
       LATERAL (SELECT coalesce(input_uncached, 0) + coalesce(input_cache_read, 0) + coalesce(input_cache_write, 0)) i (input)
 WHERE tenant_id = %(tenant_id)s AND settled_at >= %(since)s AND settled_at < %(until)s
 GROUP BY 1, 2, 3, 4, 5, 6, 7, 16, input + output = 0, width_bucket(input, %(steps)s::bigint[])
 ORDER BY 1, 2, 3, 4, 5, 6, 7, 16;

-- name: ledger_calls
-- How many calls there were, by the keys that were asked for.
SELECT CASE WHEN %(by_feature)s THEN feature ELSE '' END, CASE WHEN %(by_model)s THEN provider || '/' || model ELSE '' END,
       CASE WHEN %(by_day)s THEN date_trunc('day', settled_at, 'UTC') END, count(DISTINCT operation_id)
  FROM ledger
 WHERE tenant_id = %(tenant_id)s AND settled_at >= %(since)s AND settled_at < %(until)s
 GROUP BY 1, 2, 3;
