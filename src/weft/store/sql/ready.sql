-- The ready index: which ready tasks have to be looked at, and in which order.

-- name: startable
-- Of the given tasks, those that wait for nothing any more. An outer join with a condition that
-- keeps it one makes PostgreSQL look the given ones up by number: it would rather read all that
-- wait, and compare each of them with each of the given.
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
-- Tasks that need the given one and still wait.
SELECT e.task AS id FROM edges e JOIN tasks t ON t.id = e.task
WHERE e.needs = :task AND t.state = 'waiting' ORDER BY e.task;

-- name: dependents_ready
-- Tasks that need the given one and do not wait for it.
SELECT e.task AS id FROM edges e JOIN tasks t ON t.id = e.task
WHERE e.needs = :task AND t.state IN ('ready', 'offered') ORDER BY e.task;

-- name: family
-- A story and its subtasks.
SELECT * FROM tasks WHERE id = :story
UNION ALL
SELECT * FROM tasks WHERE story = :story;

-- name: gang_members
-- The tasks that start together and have not yet started or ended.
SELECT * FROM tasks
WHERE gang = :gang AND state NOT IN ('done', 'failed', 'cancelled', 'skipped', 'evicted')
ORDER BY id;

-- name: find_bucket
-- A bucket by its key.
SELECT id FROM buckets WHERE key = :key;

-- name: add_bucket
-- A new bucket with the next number.
INSERT INTO buckets (id, key, repo, run, tenant, class, priority, demand, agent, pinned, gang)
SELECT COALESCE(MAX(id), 0) + 1, :key, :repo, :run, :tenant, :class, :priority, :demand,
       :agent, :pinned, :gang
FROM buckets;

-- name: drop_idle_buckets
-- Forget buckets in which nothing is ready; they are made again when needed.
DELETE FROM buckets WHERE NOT EXISTS (
    SELECT 1 FROM tasks t WHERE t.bucket = buckets.id AND t.head AND t.aside IS NULL)
AND NOT EXISTS (
    SELECT 1 FROM tasks t WHERE t.bucket = buckets.id AND t.head AND t.aside IS NOT NULL);

-- name: claim_holders
-- Every task that holds files: few, as live tasks are.
SELECT DISTINCT task FROM claims;

-- name: enqueue
-- A task becomes ready. Without a line it excludes nobody and is its own head. Whom it prefers has
-- its time from now on.
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
-- Ready tasks of a run that may want the same files as one of its tasks and come before it: those
-- of each class and priority (`0/2`) up to a number. `places` are the paths that
-- task wants (with 1: and everything beneath) and the directories above.
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
-- A task leaves the ready index for another state.
UPDATE tasks SET state = :state, since = :now, reason = :reason, until = :until,
    offered_to = :offered_to, bucket = NULL, line = NULL, head = FALSE, aside = NULL
WHERE id = :id;

-- name: demote_head
-- Step back as the head of a line which an earlier task has joined.
UPDATE tasks SET head = FALSE, aside = NULL
WHERE bucket = :bucket AND line = :line AND head AND EXISTS (
    SELECT 1 FROM (
        SELECT f.submitted, f.id FROM tasks f
        WHERE f.bucket = :bucket AND f.line = :line AND f.state = 'ready' AND NOT f.head
        ORDER BY f.submitted, f.id LIMIT 1) best
    WHERE (best.submitted, best.id) < (tasks.submitted, tasks.id));

-- name: promote_best
-- The first follower of a line that has no head becomes it; `aside` if it is already known to
-- be held up.
UPDATE tasks SET head = TRUE, aside = CAST(:aside AS BIGINT)
WHERE id = (
    SELECT f.id FROM tasks f
    WHERE f.bucket = :bucket AND f.line = :line AND f.state = 'ready' AND NOT f.head
    ORDER BY f.submitted, f.id LIMIT 1)
AND NOT EXISTS (SELECT 1 FROM tasks h WHERE h.bucket = :bucket AND h.line = :line AND h.head);

-- name: set_aside
-- A head that ran into a claim is not looked at again before that claim ends.
UPDATE tasks SET aside = :holder WHERE id = :id AND head;

-- name: heads_wanting
-- The heads of a bucket after a number that may want a file in a held pattern, each with whether
-- a task follows it. Left out: heads that hold the pattern themselves or through their story, and
-- heads that hold files already.
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
-- The same of those that follow the head of one line. Who holds files stands in no line.
SELECT id, files, FALSE AS followed FROM tasks
WHERE bucket = :bucket AND line = :line AND state = 'ready' AND NOT head
  AND REPLACE(files, :start, '') <> files
  AND id <> :holder AND COALESCE(story, 0) <> :holder;

-- name: set_aside_all
-- Heads that ran into the same claim, none of which is looked at again before it ends.
UPDATE tasks SET aside = :holder
WHERE id IN (SELECT CAST(key AS BIGINT) FROM json_each(:ids));

-- name: move_lines
-- Tasks that ran into another of their own files join those that wait for that file.
UPDATE tasks SET line = :line, head = FALSE, aside = NULL
WHERE id IN (SELECT CAST(key AS BIGINT) FROM json_each(:ids));

-- name: leave_lines
-- Tasks held up by something their lines do not wait for step out of them, aside.
UPDATE tasks SET line = NULL, head = TRUE, aside = :holder
WHERE id IN (SELECT CAST(key AS BIGINT) FROM json_each(:ids));

-- name: leave_line
-- A head that is held up by something its line does not wait for steps out of it, aside.
UPDATE tasks SET line = NULL, aside = :holder WHERE id = :id AND head;

-- name: look_at
-- One task is looked at again.
UPDATE tasks SET aside = NULL WHERE id = :id AND aside IS NOT NULL;

-- name: move_line
-- A head that ran into another of its own files joins those that wait for that file.
UPDATE tasks SET line = :line, head = FALSE, aside = NULL WHERE id = :id;

-- name: bring_back
-- A claim has ended: whoever ran into it is looked at again.
UPDATE tasks SET aside = NULL WHERE aside = :holder;

-- name: bring_all_back
-- Look again at every task of a repository's runs that stands aside.
UPDATE tasks SET aside = NULL WHERE aside IS NOT NULL AND repo = :repo AND run IS NOT NULL;

-- name: set_path
-- A learned duration changed the longest remaining path of a task.
UPDATE tasks SET path_seconds = :path_seconds WHERE id = :id;

-- name: due
-- Parked tasks and unanswered offers whose time has come.
SELECT id, run, state, offered_to FROM tasks WHERE until IS NOT NULL AND until <= :now ORDER BY id;

-- name: preferences_due
-- Ready tasks whose first choice has had its time.
SELECT id, run, state, pinned FROM tasks
WHERE pin_until IS NOT NULL AND state = 'ready' AND pin_until <= :now ORDER BY id;

-- name: preferences_for
-- Tasks that have not ended and prefer one worker.
SELECT id, run, state, pinned FROM tasks
WHERE pinned IS NOT NULL AND pinned = :worker AND pin_until IS NOT NULL AND state IN
    ('waiting', 'ready', 'offered', 'running', 'parked', 'paused', 'blocked', 'gating')
ORDER BY id;

-- name: next_due
-- When the next of these is due: something parked, an offer or a preference.
SELECT MIN(at) AS value FROM (
    SELECT MIN(until) AS at FROM tasks WHERE until IS NOT NULL
    UNION ALL
    SELECT MIN(pin_until) FROM tasks WHERE pin_until IS NOT NULL AND state = 'ready') due;
