-- The ready index: the ready tasks that an admission has to examine, and their order.

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

-- name: find_bucket
-- Find a bucket by its key.
SELECT id FROM buckets WHERE key = :key;

-- name: add_bucket
-- Add a bucket with the next number.
INSERT INTO buckets (id, key, repo, run, tenant, class, priority, demand, agent, pinned, gang)
SELECT COALESCE(MAX(id), 0) + 1, :key, :repo, :run, :tenant, :class, :priority, :demand,
       :agent, :pinned, :gang
FROM buckets;

-- name: drop_idle_buckets
-- Delete the buckets without ready tasks; they are made again when needed.
DELETE FROM buckets WHERE NOT EXISTS (
    SELECT 1 FROM tasks t WHERE t.bucket = buckets.id AND t.head AND t.aside IS NULL)
AND NOT EXISTS (
    SELECT 1 FROM tasks t WHERE t.bucket = buckets.id AND t.head AND t.aside IS NOT NULL);

-- name: claim_holders
-- List the tasks that hold files: few, as live tasks are.
SELECT DISTINCT task FROM claims;

-- name: enqueue
-- Make a task ready. Without a line it excludes no task and is its own head. A preference for a
-- worker lasts from now on.
UPDATE tasks SET state = 'ready', since = :now, reason = '', until = NULL, offered_to = NULL,
    pin_until = CASE WHEN pin_until IS NULL THEN NULL ELSE CAST(:preferred AS DOUBLE PRECISION) END,
    bucket = :bucket, line = :line, head = :head, aside = NULL
WHERE id = :id;

-- name: add_want
-- Record a path where a ready task of a run wants files.
INSERT INTO wants (bucket, place, task)
SELECT CAST(:bucket AS BIGINT), key, CAST(:task AS BIGINT) FROM json_each(:places);

-- name: drop_wants
-- Delete the wanted files of a task that is no longer ready.
DELETE FROM wants WHERE bucket = :bucket AND task = :task
  AND place IN (SELECT key FROM json_each(:places));

-- name: ready_ahead
-- List the ready tasks of a run that may want the same files as a task and come before it: those
-- of each class and priority (`0/2`) up to a number. `places` are the paths that
-- task wants (with 1: and all paths beneath) and the directories above.
SELECT t.* FROM (
    SELECT w.task FROM buckets b CROSS JOIN json_each(:before) u CROSS JOIN json_each(:places) p
    CROSS JOIN wants w
    WHERE b.run = :run AND u.key = CAST(b.class AS TEXT) || '/' || CAST(b.priority AS TEXT)
      AND w.bucket = b.id AND w.place = p.key
      AND w.task < CAST(CAST(u.value AS TEXT) AS BIGINT)
    UNION ALL
    SELECT w.task FROM buckets b CROSS JOIN json_each(:before) u CROSS JOIN json_each(:places) p
    CROSS JOIN wants w
    WHERE b.run = :run AND u.key = CAST(b.class AS TEXT) || '/' || CAST(b.priority AS TEXT)
      AND CAST(p.value AS TEXT) = '1'
      AND w.bucket = b.id AND w.place > p.key || '/' AND w.place < p.key || '0'
      AND w.task < CAST(CAST(u.value AS TEXT) AS BIGINT)
    LIMIT :most) a
JOIN tasks t ON t.id = a.task;

-- name: leave_ready
-- Move a task from the ready index to another state.
UPDATE tasks SET state = :state, since = :now, reason = :reason, until = :until,
    offered_to = :offered_to, bucket = NULL, line = NULL, head = FALSE, aside = NULL
WHERE id = :id;

-- name: demote_head
-- Make the head of a line, which an earlier task has joined, a follower.
UPDATE tasks SET head = FALSE, aside = NULL
WHERE bucket = :bucket AND line = :line AND head AND EXISTS (
    SELECT 1 FROM (
        SELECT f.submitted, f.id FROM tasks f
        WHERE f.bucket = :bucket AND f.line = :line AND f.state = 'ready' AND NOT f.head
        ORDER BY f.submitted, f.id LIMIT 1) best
    WHERE (best.submitted, best.id) < (tasks.submitted, tasks.id));

-- name: promote_best
-- Make the first follower of a line without a head its head; `aside` if it is already known to
-- be held up.
UPDATE tasks SET head = TRUE, aside = CAST(:aside AS BIGINT)
WHERE id = (
    SELECT f.id FROM tasks f
    WHERE f.bucket = :bucket AND f.line = :line AND f.state = 'ready' AND NOT f.head
    ORDER BY f.submitted, f.id LIMIT 1)
AND NOT EXISTS (SELECT 1 FROM tasks h WHERE h.bucket = :bucket AND h.line = :line AND h.head);

-- name: set_aside
-- Set a head aside until the claim that conflicts with it ends.
UPDATE tasks SET aside = :holder WHERE id = :id AND head;

-- name: heads_wanting
-- List the heads of a bucket after a number that may want a file in a held pattern; `followed`: a
-- task stands behind it. Left out: heads that hold the pattern themselves or through their
-- story, and heads that hold files already.
-- Files are the keys of a JSON object, so a quote and the pattern's lead is how such a file
-- begins.
SELECT id, files, line, EXISTS (
    SELECT 1 FROM tasks f WHERE f.bucket = tasks.bucket AND f.line = tasks.line
      AND f.state = 'ready' AND NOT f.head) AS followed
FROM tasks
WHERE bucket = :bucket AND head AND aside IS NULL
  AND REPLACE(files, :start, '') <> files
  AND id > :after AND id <> :holder AND COALESCE(story, 0) <> :holder
  AND NOT EXISTS (SELECT 1 FROM claims c WHERE c.repo = tasks.repo AND c.task = tasks.id);

-- name: followers_wanting
-- List the same of the followers in a line. A task that holds files stands in no line.
SELECT id, files, FALSE AS followed FROM tasks
WHERE bucket = :bucket AND line = :line AND state = 'ready' AND NOT head
  AND REPLACE(files, :start, '') <> files
  AND id <> :holder AND COALESCE(story, 0) <> :holder;

-- name: set_aside_all
-- Set heads aside until the claim that conflicts with them ends.
UPDATE tasks SET aside = :holder
WHERE id IN (SELECT CAST(key AS BIGINT) FROM json_each(:ids));

-- name: move_lines
-- Move tasks to the line of another of their files, which is held.
UPDATE tasks SET line = :line, head = FALSE, aside = NULL
WHERE id IN (SELECT CAST(key AS BIGINT) FROM json_each(:ids));

-- name: leave_lines
-- Take tasks out of their lines, aside, whose obstacle is not the file of their line.
UPDATE tasks SET line = NULL, head = TRUE, aside = :holder
WHERE id IN (SELECT CAST(key AS BIGINT) FROM json_each(:ids));

-- name: leave_line
-- Take a head out of its line, aside, whose obstacle is not the file of its line.
UPDATE tasks SET line = NULL, aside = :holder WHERE id = :id AND head;

-- name: look_at
-- Let the next admission examine a task again.
UPDATE tasks SET aside = NULL WHERE id = :id AND aside IS NOT NULL;

-- name: move_line
-- Move a head to the line of another of its files, which is held.
UPDATE tasks SET line = :line, head = FALSE, aside = NULL WHERE id = :id;

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
