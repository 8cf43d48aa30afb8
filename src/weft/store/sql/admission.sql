-- The admission transaction: its reads, then its writes.

-- name: buckets
-- List of every bucket the best task that is not set aside, and the best task that is. The recursion
-- jumps from key to key in the index, so its cost is that of the buckets, not of their tasks.
WITH RECURSIVE free (bucket) AS (
    SELECT MIN(bucket) FROM tasks WHERE state = 'ready' AND aside IS NULL
    UNION ALL
    SELECT (SELECT MIN(t.bucket) FROM tasks t
            WHERE t.state = 'ready' AND t.aside IS NULL AND t.bucket > free.bucket)
    FROM free WHERE free.bucket IS NOT NULL
), held (bucket) AS (
    SELECT MIN(bucket) FROM tasks WHERE aside IS NOT NULL
    UNION ALL
    SELECT (SELECT MIN(t.bucket) FROM tasks t
            WHERE t.aside IS NOT NULL AND t.bucket > held.bucket)
    FROM held WHERE held.bucket IS NOT NULL
)
SELECT t.id, t.name, t.repo, t.run, t.tenant, t.class, t.priority, t.demand, t.agent, t.pinned, t.gang,
       t.stage, t.story, t.path_seconds, t.submitted, t.files, t.attempt, t.bucket, t.aside
FROM free b JOIN tasks t ON t.id = (
    SELECT v.id FROM tasks v WHERE v.bucket = b.bucket AND v.state = 'ready' AND v.aside IS NULL
    ORDER BY v.path_seconds DESC, v.submitted, v.id LIMIT 1)
UNION ALL
SELECT t.id, t.name, t.repo, t.run, t.tenant, t.class, t.priority, t.demand, t.agent, t.pinned, t.gang,
       t.stage, t.story, t.path_seconds, t.submitted, t.files, t.attempt, t.bucket, t.aside
FROM held b JOIN tasks t ON t.id = (
    SELECT v.id FROM tasks v WHERE v.bucket = b.bucket AND v.aside IS NOT NULL
    ORDER BY v.path_seconds DESC, v.submitted, v.id LIMIT 1);

-- name: next_in_bucket
-- List the best tasks of a bucket that are not set aside, after the first ones.
SELECT t.id, t.name, t.repo, t.run, t.tenant, t.class, t.priority, t.demand, t.agent, t.pinned, t.gang,
       t.stage, t.story, t.path_seconds, t.submitted, t.files, t.attempt, t.bucket, t.aside
FROM tasks t
WHERE t.bucket = :bucket AND t.state = 'ready' AND t.aside IS NULL
ORDER BY t.path_seconds DESC, t.submitted, t.id LIMIT :most OFFSET :passed;

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
-- List every claim with the task that holds it.
SELECT c.task, c.pattern, t.run, t.name, t.state, t.stage, t.agent, t.reason
FROM claims c JOIN tasks t ON t.id = c.task ORDER BY c.pattern, c.task;

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
-- Make a ready task running. A gang starts together only the first time.
UPDATE tasks SET state = 'running', since = :now, reason = '', until = NULL, offered_to = NULL,
    attempt = :attempt, gang = NULL, bucket = NULL, aside = NULL
WHERE id = :id;

-- name: wanted_tasks
-- List the first tasks that could start if there were slots for them, as the view `weft.wanted` does.
SELECT repo, demand, files FROM tasks t
WHERE state = 'ready' AND aside IS NULL AND repo NOT LIKE 'swarm:%'
  AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = t.run AND r.untested)
  AND NOT EXISTS (SELECT 1 FROM stopped_agents s WHERE s.agent = t.agent)
  AND NOT EXISTS (SELECT 1 FROM store WHERE drained IS NOT NULL)
ORDER BY class DESC, priority DESC, path_seconds DESC, submitted, id LIMIT 1000;
