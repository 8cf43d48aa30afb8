-- Leases after they were granted. Conditions repeat `state <> 'released'`, and orders hide their
-- column behind a plus, so that SQLite uses the index of the open leases.

-- name: lease
-- Read a lease by its fence.
SELECT * FROM leases WHERE fence = :fence;

-- name: open_leases
-- List the open leases, which count as use.
SELECT * FROM leases WHERE state <> 'released' ORDER BY +fence;

-- name: open_lease_of_task
-- Find the lease under which a task's attempt runs.
SELECT * FROM leases WHERE task = :task AND state <> 'released';

-- name: open_leases_held_by
-- List the open leases of a run or of a gate.
SELECT * FROM leases WHERE kind = :kind AND holder = :holder AND state <> 'released';

-- name: costs_of
-- List the amounts of a lease.
SELECT resource, amount FROM lease_costs WHERE fence = :fence ORDER BY resource;

-- name: renew
-- Renew a lease after a sign of life: it is held, even if it had become suspect.
UPDATE leases SET state = 'held', deadline = :deadline
WHERE fence = :fence AND state <> 'released';

-- name: suspect_overdue
-- Make leases past their deadline suspect. They still count.
UPDATE leases SET state = 'suspect'
WHERE state <> 'released' AND state = 'held' AND deadline < :now;

-- name: suspect_worker
-- Make the leases of a worker that was found dead suspect.
UPDATE leases SET state = 'suspect'
WHERE state <> 'released' AND state = 'held' AND worker = :worker;

-- name: suspects
-- List the leases whose holder has to be proved dead or alive.
SELECT * FROM leases WHERE state <> 'released' AND state = 'suspect' ORDER BY +fence;

-- name: end_lease
-- End a lease and, with it, its amounts.
UPDATE leases SET state = 'released', released = :now, ended = :ended
WHERE fence = :fence AND state <> 'released';

-- name: drop_units
-- Free the numbered units of an ended lease.
DELETE FROM lease_units WHERE fence = :fence;

-- name: move_units
-- Move the numbered units to the lease of the worker that adopts the process.
UPDATE lease_units SET fence = :fence WHERE fence = :old;

-- name: end_attempt
-- Record the end of an attempt.
UPDATE attempts SET ended = :now, outcome = :outcome, led_to = :led_to
WHERE task = :task AND number = :number AND ended IS NULL;

-- name: record_work
-- Record the candidate and the cost of an attempt.
UPDATE attempts SET candidate = :candidate, base = :base, session = :session, tokens = :tokens,
    micro_usd = :micro_usd, answer = :answer
WHERE task = :task AND number = :number;

-- name: answer_under
-- Read the outcome and answer of the attempt that finished under a fence.
SELECT a.outcome, a.answer FROM leases l JOIN attempts a ON a.task = l.task AND a.number = l.attempt
WHERE l.fence = :fence AND l.ended = 'finished';

-- name: hand_over_attempt
-- Give an attempt that continues another fence and worker.
UPDATE attempts SET fence = :fence, worker = :worker WHERE task = :task AND number = :number;

-- name: attempt
-- Read an attempt.
SELECT * FROM attempts WHERE task = :task AND number = :number;

-- name: attempts_of
-- List the attempts of a task.
SELECT * FROM attempts WHERE task = :task ORDER BY number;

-- name: attempts_at
-- List the attempts of several tasks (the keys of a JSON object).
SELECT * FROM attempts WHERE task IN (SELECT CAST(key AS BIGINT) FROM json_each(:tasks))
ORDER BY task, number;

-- name: settle_spending
-- Add the use of a consumable by an ended lease to the sum of its resource.
INSERT INTO spending (resource, number, fence, amount, total)
SELECT one.resource, COALESCE(last.number, 0) + 1, one.fence, one.amount,
       COALESCE(last.total, 0) + one.amount
FROM (SELECT CAST(:resource AS TEXT) AS resource, CAST(:fence AS BIGINT) AS fence,
             CAST(:amount AS BIGINT) AS amount) one
LEFT JOIN (
    SELECT number, total FROM spending WHERE resource = :resource
    ORDER BY number DESC LIMIT 1) last ON TRUE;

-- name: reserve
-- Raise the amount of a running lease; it is known to fit.
INSERT INTO lease_costs (fence, resource, amount) VALUES (:fence, :resource, :amount)
ON CONFLICT (fence, resource) DO UPDATE SET amount = lease_costs.amount + excluded.amount;

-- name: drop_claims
-- End the claims of a task.
DELETE FROM claims WHERE repo = :repo AND task = :task;

-- name: pass_claims
-- Pass the claims of a subtask to its story.
INSERT INTO claims (repo, task, pattern)
SELECT repo, CAST(:story AS BIGINT), pattern FROM claims WHERE repo = :repo AND task = :task
ON CONFLICT (repo, task, pattern) DO NOTHING;

-- name: record_failure
-- Add the failure of an attempt.
INSERT INTO failures (task, attempt, kind, signature, at)
VALUES (:task, :attempt, :kind, :signature, :at);

-- name: failures_alike
-- Count the equal failures of a task.
SELECT COUNT(*) AS value FROM failures
WHERE task = :task AND kind = :kind AND signature = :signature;

-- name: forget_failures
-- Delete the failures of a task that a person reopened; its events still have them.
DELETE FROM failures WHERE task = :task;

-- name: failures_of
-- List the failures of a task, the latest first.
SELECT kind FROM failures WHERE task = :task ORDER BY attempt DESC;

-- name: record_duration
-- Add the duration of a successful attempt.
INSERT INTO durations (task, attempt, agent, stage, size, seconds, at)
VALUES (:task, :attempt, :agent, :stage, :size, :seconds, :at);

-- name: durations_alike
-- List the latest durations of an agent in a stage.
SELECT size, seconds FROM durations WHERE agent = :agent AND stage = :stage
ORDER BY at DESC, task DESC LIMIT :most;

-- name: tries_alike
-- The attempts at the tasks in which an agent succeeded lately, in the same stage. Pressure of
-- providers and stops by weft are no tries.
SELECT COUNT(*) AS attempts, COUNT(DISTINCT a.task) AS tasks
FROM (SELECT DISTINCT l.task FROM (
          SELECT task FROM durations WHERE agent = :agent AND stage = :stage
          ORDER BY at DESC, task DESC LIMIT :most) l) d
CROSS JOIN attempts a
WHERE a.task = d.task AND a.agent = :agent AND a.stage = :stage AND a.ended IS NOT NULL
  AND a.outcome NOT IN ('stopped', 'cancelled', 'skipped', 'rate_limit', 'overload', 'capacity');
