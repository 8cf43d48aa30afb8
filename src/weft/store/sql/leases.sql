-- Leases after they were granted. Conditions repeat `state <> 'released'`, and orders hide their
-- column behind a plus, so that SQLite goes by the index of the open ones.

-- name: lease
-- One lease by its fence.
SELECT * FROM leases WHERE fence = :fence;

-- name: open_leases
-- Every lease that counts.
SELECT * FROM leases WHERE state <> 'released' ORDER BY +fence;

-- name: open_lease_of_task
-- The lease under which a task's attempt runs, if one does.
SELECT * FROM leases WHERE task = :task AND state <> 'released';

-- name: open_leases_held_by
-- The open leases of a run or of a gate.
SELECT * FROM leases WHERE kind = :kind AND holder = :holder AND state <> 'released';

-- name: costs_of
-- What a lease takes.
SELECT resource, amount FROM lease_costs WHERE fence = :fence ORDER BY resource;

-- name: renew
-- A holder gave a sign of life: the lease is held, also if it had become suspect.
UPDATE leases SET state = 'held', deadline = :deadline
WHERE fence = :fence AND state <> 'released';

-- name: suspect_overdue
-- A passed deadline makes a lease suspect. It frees nothing.
UPDATE leases SET state = 'suspect'
WHERE state <> 'released' AND state = 'held' AND deadline < :now;

-- name: suspect_worker
-- The leases of a worker found dead are suspect at once.
UPDATE leases SET state = 'suspect'
WHERE state <> 'released' AND state = 'held' AND worker = :worker;

-- name: suspects
-- Leases whose holder has to be proved dead or alive.
SELECT * FROM leases WHERE state <> 'released' AND state = 'suspect' ORDER BY +fence;

-- name: end_lease
-- Amounts end with the lease.
UPDATE leases SET state = 'released', released = :now, ended = :ended
WHERE fence = :fence AND state <> 'released';

-- name: drop_units
-- Numbered units of an ended lease can be handed out again.
DELETE FROM lease_units WHERE fence = :fence;

-- name: move_units
-- Adoption: the numbered units stay with the process.
UPDATE lease_units SET fence = :fence WHERE fence = :old;

-- name: end_attempt
-- An attempt has ended.
UPDATE attempts SET ended = :now, outcome = :outcome, led_to = :led_to
WHERE task = :task AND number = :number AND ended IS NULL;

-- name: record_work
-- What an attempt left behind, and what it cost.
UPDATE attempts SET candidate = :candidate, base = :base, session = :session, tokens = :tokens,
    micro_usd = :micro_usd, answer = :answer
WHERE task = :task AND number = :number;

-- name: answer_under
-- The outcome and answer of the attempt that was finished under a fence.
SELECT a.outcome, a.answer FROM leases l JOIN attempts a ON a.task = l.task AND a.number = l.attempt
WHERE l.fence = :fence AND l.ended = 'finished';

-- name: hand_over_attempt
-- The same attempt goes on under another fence.
UPDATE attempts SET fence = :fence, worker = :worker WHERE task = :task AND number = :number;

-- name: attempt
-- One attempt.
SELECT * FROM attempts WHERE task = :task AND number = :number;

-- name: attempts_of
-- Every attempt at a task.
SELECT * FROM attempts WHERE task = :task ORDER BY number;

-- name: attempts_at
-- Every attempt at some tasks (the keys of a JSON object).
SELECT * FROM attempts WHERE task IN (SELECT CAST(key AS BIGINT) FROM json_each(:tasks))
ORDER BY task, number;

-- name: settle_spending
-- What an ended lease really used of a consumable, on top of what was spent before.
INSERT INTO spending (resource, number, fence, amount, total)
SELECT one.resource, COALESCE(last.number, 0) + 1, one.fence, one.amount,
       COALESCE(last.total, 0) + one.amount
FROM (SELECT CAST(:resource AS TEXT) AS resource, CAST(:fence AS BIGINT) AS fence,
             CAST(:amount AS BIGINT) AS amount) one
LEFT JOIN (
    SELECT number, total FROM spending WHERE resource = :resource
    ORDER BY number DESC LIMIT 1) last ON TRUE;

-- name: reserve
-- A running lease asks for more of a resource, already known to fit.
INSERT INTO lease_costs (fence, resource, amount) VALUES (:fence, :resource, :amount)
ON CONFLICT (fence, resource) DO UPDATE SET amount = lease_costs.amount + excluded.amount;

-- name: drop_claims
-- A task gives up its files.
DELETE FROM claims WHERE repo = :repo AND task = :task;

-- name: pass_claims
-- A subtask's files pass to its story.
INSERT INTO claims (repo, task, pattern)
SELECT repo, CAST(:story AS BIGINT), pattern FROM claims WHERE repo = :repo AND task = :task
ON CONFLICT (repo, task, pattern) DO NOTHING;

-- name: record_failure
-- Remember how an attempt failed.
INSERT INTO failures (task, attempt, kind, signature, at)
VALUES (:task, :attempt, :kind, :signature, :at);

-- name: failures_alike
-- How often a task failed in the same way.
SELECT COUNT(*) AS value FROM failures
WHERE task = :task AND kind = :kind AND signature = :signature;

-- name: forget_failures
-- A person reopened the task; the events still tell of them.
DELETE FROM failures WHERE task = :task;

-- name: failures_of
-- How a task failed, the latest first.
SELECT kind FROM failures WHERE task = :task ORDER BY attempt DESC;

-- name: record_duration
-- Remember how long a successful attempt took.
INSERT INTO durations (task, attempt, agent, stage, size, seconds, at)
VALUES (:task, :attempt, :agent, :stage, :size, :seconds, :at);

-- name: durations_alike
-- The latest durations of an agent in a stage.
SELECT size, seconds FROM durations WHERE agent = :agent AND stage = :stage
ORDER BY at DESC, task DESC LIMIT :most;
