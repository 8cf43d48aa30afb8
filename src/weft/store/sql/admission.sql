-- The admission transaction: what it reads, then what it writes.

-- name: bucket_heads
-- Of every bucket the best task that nothing is known to hold up, and the best one that is
-- known to wait for a claim to end.
SELECT b.id AS bucket, b.repo, b.run, b.tenant, b.class, b.priority, b.demand, b.agent,
       b.pinned, b.gang, t.id, t.name, t.stage, t.story, t.path_seconds, t.submitted, t.files,
       t.line, t.attempt, t.aside
FROM buckets b JOIN tasks t ON t.id = (
    SELECT v.id FROM tasks v WHERE v.bucket = b.id AND v.head AND v.aside IS NULL
    ORDER BY v.path_seconds DESC, v.submitted, v.id LIMIT 1)
UNION ALL
SELECT b.id AS bucket, b.repo, b.run, b.tenant, b.class, b.priority, b.demand, b.agent,
       b.pinned, b.gang, t.id, t.name, t.stage, t.story, t.path_seconds, t.submitted, t.files,
       t.line, t.attempt, t.aside
FROM buckets b JOIN tasks t ON t.id = (
    SELECT v.id FROM tasks v WHERE v.bucket = b.id AND v.head AND v.aside IS NOT NULL
    ORDER BY v.path_seconds DESC, v.submitted, v.id LIMIT 1);

-- name: next_heads
-- The next best tasks of a bucket after its first heads were set aside.
SELECT b.id AS bucket, b.repo, b.run, b.tenant, b.class, b.priority, b.demand, b.agent,
       b.pinned, b.gang, t.id, t.name, t.stage, t.story, t.path_seconds, t.submitted, t.files,
       t.line, t.attempt, t.aside
FROM buckets b JOIN tasks t ON t.bucket = b.id
WHERE b.id = :bucket AND t.head AND t.aside IS NULL
ORDER BY t.path_seconds DESC, t.submitted, t.id LIMIT :most;

-- name: claims
-- Every claim on a repository, with its holder's state. Live tasks are few, so these are too.
SELECT c.task, c.pattern, t.state FROM claims c JOIN tasks t ON t.id = c.task
WHERE c.repo = :repo;

-- name: turns_since
-- How many admissions there were after a fence.
SELECT COUNT(*) AS value FROM leases WHERE turn IS NOT NULL AND fence > :fence;

-- name: set_reservation
-- Somebody is now first in order but held up.
INSERT INTO reservation (one, task, since, reserved) VALUES (1, :task, :since, :reserved)
ON CONFLICT (one) DO UPDATE SET task = excluded.task, since = excluded.since,
    reserved = excluded.reserved;

-- name: drop_reservation
-- Nobody is held up any more.
DELETE FROM reservation WHERE task = :task;

-- name: add_lease
-- A lease is granted.
INSERT INTO leases (fence, kind, holder, task, attempt, worker, host, state, granted, deadline,
                    turn)
VALUES (:fence, :kind, :holder, :task, :attempt, :worker, :host, 'held', :granted, :deadline,
        :turn);

-- name: add_costs
-- What a lease takes, given as a JSON object.
INSERT INTO lease_costs (fence, resource, amount)
SELECT CAST(:fence AS BIGINT), key, CAST(CAST(value AS TEXT) AS BIGINT) FROM json_each(:costs);

-- name: add_unit
-- One numbered unit of a lease.
INSERT INTO lease_units (resource, unit, fence) VALUES (:resource, :unit, :fence);

-- name: add_claims
-- The files a task now holds, given as the keys of a JSON object; those it kept stay.
INSERT INTO claims (repo, task, pattern)
SELECT CAST(:repo AS TEXT), CAST(:task AS BIGINT), key FROM json_each(:patterns) WHERE TRUE
ON CONFLICT (repo, task, pattern) DO NOTHING;

-- name: add_attempt
-- An attempt starts.
INSERT INTO attempts (task, number, fence, worker, agent, stage, started)
VALUES (:task, :number, :fence, :worker, :agent, :stage, :started);

-- name: start_task
-- A task leaves the ready index to run. A gang is one only the first time.
UPDATE tasks SET state = 'running', since = :now, reason = '', until = NULL, offered_to = NULL,
    attempt = :attempt, gang = NULL, bucket = NULL, line = NULL, head = FALSE, aside = NULL
WHERE id = :id;
