-- The ready tasks: how a task becomes ready, is set aside, and leaves.

-- name: startable
-- List those of the given tasks whose needs are all met. An outer join with a condition that
-- keeps it an inner join makes PostgreSQL look the given tasks up by number: it would rather read
-- all waiting tasks, and compare each of them with each of the given.
SELECT t.* FROM (SELECT CAST(key AS BIGINT) AS id FROM json_each(:ids)) k
LEFT JOIN tasks t ON t.id = k.id
WHERE COALESCE(t.state, '') = 'waiting'
  AND NOT EXISTS (
      SELECT 1 FROM edges e JOIN tasks n ON n.id = e.needs
      WHERE e.task = t.id AND n.state NOT IN ('done', 'skipped')
        AND NOT COALESCE(n.state = 'gating' AND n.story = t.story, FALSE)
        -- A story that is looked at has all its subtasks at the gate.
        AND NOT COALESCE(n.state = 'gating' AND n.story = t.id AND t.stage IS NOT NULL, FALSE))
  AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = t.run AND r.state = 'waiting')
  AND NOT EXISTS (
      SELECT 1 FROM leases l
      WHERE l.task = t.id AND l.state <> 'released')
ORDER BY t.id;

-- name: dependents
-- List the tasks that need a task and still wait.
SELECT e.task AS id FROM edges e JOIN tasks t ON t.id = e.task
WHERE e.needs = :task AND t.state = 'waiting' ORDER BY e.task;

-- name: dependents_ready
-- List the tasks that need a task and do not wait for it.
SELECT e.task AS id FROM edges e JOIN tasks t ON t.id = e.task
WHERE e.needs = :task AND t.state IN ('ready', 'offered') ORDER BY e.task;

-- name: family
-- List a story and its subtasks.
SELECT * FROM tasks WHERE id = :story
UNION ALL
SELECT * FROM tasks WHERE story = :story;

-- name: gang_members
-- List the tasks of a gang that have not yet started or ended.
SELECT * FROM tasks
WHERE gang = :gang AND state NOT IN ('done', 'failed', 'cancelled', 'skipped', 'evicted')
ORDER BY id;

-- name: claim_holders
-- List the tasks that hold files: few, as live tasks are.
SELECT DISTINCT task FROM claims;

-- name: enqueue
-- Make a task ready. A preference for a worker lasts from now on.
UPDATE tasks SET state = 'ready', since = :now, reason = '', until = NULL, offered_to = NULL,
    pin_until = CASE WHEN pin_until IS NULL THEN NULL ELSE CAST(:preferred AS DOUBLE PRECISION) END,
    bucket = :bucket, aside = NULL
WHERE id = :id;

-- name: leave_ready
-- Move a task to another state.
UPDATE tasks SET state = :state, since = :now, reason = :reason, until = :until,
    offered_to = :offered_to, bucket = NULL, aside = NULL
WHERE id = :id;

-- name: add_ready_files
-- Record the paths where a ready task of a run asks for files.
INSERT INTO ready_files (run, urgency, path, task)
SELECT CAST(:run AS TEXT), CAST(:urgency AS TEXT), key, CAST(:task AS BIGINT) FROM json_each(:paths);

-- name: drop_ready_files
-- Delete the paths of a task that is no longer ready.
DELETE FROM ready_files WHERE run = :run AND urgency = :urgency AND task = :task
  AND path IN (SELECT key FROM json_each(:paths));

-- name: ready_ahead
-- List the ready tasks of a run that may ask for the same files as a task and come before it: those
-- of each class and priority (`0/2`) up to a number. `paths` are the paths of that task (with 1: and
-- all paths beneath) and the directories above.
SELECT t.* FROM (
    SELECT w.task FROM json_each(:before) u CROSS JOIN json_each(:paths) p CROSS JOIN ready_files w
    WHERE w.run = :run AND w.urgency = u.key AND w.path = p.key
      AND w.task < CAST(CAST(u.value AS TEXT) AS BIGINT)
    UNION ALL
    SELECT w.task FROM json_each(:before) u CROSS JOIN json_each(:paths) p CROSS JOIN ready_files w
    WHERE w.run = :run AND w.urgency = u.key AND CAST(p.value AS TEXT) = '1'
      AND w.path > p.key || '/' AND w.path < p.key || '0'
      AND w.task < CAST(CAST(u.value AS TEXT) AS BIGINT)
    LIMIT :most) a
JOIN tasks t ON t.id = a.task;

-- name: set_aside
-- Set a ready task aside until the task whose files or turn it waits for lets go.
UPDATE tasks SET aside = :holder WHERE id = :id;

-- name: look_at
-- Let the next admission examine a task again.
UPDATE tasks SET aside = NULL WHERE id = :id AND aside IS NOT NULL;

-- name: bring_back
-- Let the next admission examine the tasks again that were set aside for a holder.
UPDATE tasks SET aside = NULL WHERE aside = :holder;

-- name: bring_all_back
-- Let the next admission examine every task of a repository's runs that stands aside.
UPDATE tasks SET aside = NULL WHERE aside IS NOT NULL AND repo = :repo AND run IS NOT NULL;

-- name: set_path
-- Set the longest remaining path of a task, after a new estimate.
UPDATE tasks SET path_seconds = :path_seconds WHERE id = :id;

-- name: due
-- List the parked tasks and unanswered offers whose time has come.
SELECT id, run, state, offered_to FROM tasks WHERE until IS NOT NULL AND until <= :now ORDER BY id;

-- name: preferences_due
-- List the ready tasks whose preference for a worker has ended.
SELECT id, run, state, pinned FROM tasks
WHERE pin_until IS NOT NULL AND state = 'ready' AND pin_until <= :now ORDER BY id;

-- name: preferences_for
-- List the tasks that have not ended and prefer a worker.
SELECT id, run, state, pinned FROM tasks
WHERE pinned IS NOT NULL AND pinned = :worker AND pin_until IS NOT NULL AND state IN
    ('waiting', 'ready', 'offered', 'running', 'parked', 'paused', 'blocked', 'gating')
ORDER BY id;

-- name: next_due
-- Return the time of the next parked task, unanswered offer or preference.
SELECT MIN(at) AS value FROM (
    SELECT MIN(until) AS at FROM tasks WHERE until IS NOT NULL
    UNION ALL
    SELECT MIN(pin_until) FROM tasks WHERE pin_until IS NOT NULL AND state = 'ready') due;
