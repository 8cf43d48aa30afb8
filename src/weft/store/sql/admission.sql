-- The admission transaction: its reads, then its writes.

-- name: bucket_heads
-- List of every bucket the best task without a known obstacle, and the best task that is
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
-- List the next best tasks of a bucket after its first heads were set aside.
SELECT b.id AS bucket, b.repo, b.run, b.tenant, b.class, b.priority, b.demand, b.agent,
       b.pinned, b.gang, t.id, t.name, t.stage, t.story, t.path_seconds, t.submitted, t.files,
       t.line, t.attempt, t.aside
FROM buckets b JOIN tasks t ON t.bucket = b.id
WHERE b.id = :bucket AND t.head AND t.aside IS NULL
ORDER BY t.path_seconds DESC, t.submitted, t.id LIMIT :most;

-- name: claims
-- List every claim on a repository, with its holder's state. Live tasks are few, so claims are too.
SELECT c.task, c.pattern, t.state FROM claims c JOIN tasks t ON t.id = c.task
WHERE c.repo = :repo;

-- name: turns_since
-- Count the admissions after a fence.
SELECT COUNT(*) AS value FROM leases WHERE turn IS NOT NULL AND fence > :fence;

-- name: set_reservation
-- Record the task that is first in order but held up.
INSERT INTO reservation (one, task, since, reserved) VALUES (1, :task, :since, :reserved)
ON CONFLICT (one) DO UPDATE SET task = excluded.task, since = excluded.since,
    reserved = excluded.reserved;

-- name: drop_reservation
-- Delete the reservation of a task that is no longer held up.
DELETE FROM reservation WHERE task = :task;

-- name: add_lease
-- Add a granted lease.
INSERT INTO leases (fence, kind, holder, task, attempt, worker, host, state, granted, deadline,
                    turn)
VALUES (:fence, :kind, :holder, :task, :attempt, :worker, :host, 'held', :granted, :deadline,
        :turn);

-- name: add_costs
-- Add the amounts of a lease, given as a JSON object.
INSERT INTO lease_costs (fence, resource, amount)
SELECT CAST(:fence AS BIGINT), key, CAST(CAST(value AS TEXT) AS BIGINT) FROM json_each(:costs);

-- name: add_unit
-- Add a numbered unit of a lease.
INSERT INTO lease_units (resource, unit, fence) VALUES (:resource, :unit, :fence);

-- name: held_files
-- List every claim with the task that holds it; `tenant` NULL: of all tenants.
SELECT c.task, c.pattern, t.run, t.name, t.state, t.stage, t.agent, t.reason
FROM claims c JOIN tasks t ON t.id = c.task
WHERE CAST(:tenant AS TEXT) IS NULL OR t.tenant = :tenant ORDER BY c.pattern, c.task;

-- name: add_claims
-- Add the files that a task now holds, given as the keys of a JSON object; its other claims stay.
INSERT INTO claims (repo, task, pattern)
SELECT CAST(:repo AS TEXT), CAST(:task AS BIGINT), key FROM json_each(:patterns) WHERE TRUE
ON CONFLICT (repo, task, pattern) DO NOTHING;

-- name: add_attempt
-- Add an attempt that starts.
INSERT INTO attempts (task, number, fence, worker, agent, stage, started)
VALUES (:task, :number, :fence, :worker, :agent, :stage, :started);

-- name: start_task
-- Move a task from the ready index to running. A gang starts together only the first time.
UPDATE tasks SET state = 'running', since = :now, reason = '', until = NULL, offered_to = NULL,
    attempt = :attempt, gang = NULL, bucket = NULL, line = NULL, head = FALSE, aside = NULL
WHERE id = :id;

-- name: wanted_heads
-- List the first tasks that could start if there were slots for them, as the view `weft.wanted` does.
SELECT repo, demand FROM tasks t
WHERE head AND aside IS NULL AND repo NOT LIKE 'swarm:%'
  AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = t.run AND r.untested)
  AND NOT EXISTS (SELECT 1 FROM stopped_agents s WHERE s.agent = t.agent)
  AND NOT EXISTS (SELECT 1 FROM store WHERE drained IS NOT NULL)
ORDER BY class DESC, priority DESC, path_seconds DESC, submitted, id LIMIT 1000;
