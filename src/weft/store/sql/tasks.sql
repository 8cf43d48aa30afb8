-- Tasks.

-- name: task
-- Read a task by its number.
SELECT * FROM tasks WHERE id = :id;

-- name: task_by_name
-- Find a task of a run by its name in the plan.
SELECT * FROM tasks WHERE run = :run AND name = :name;

-- name: numbers_in
-- List the tasks in a state other than ready and running, oldest first.
SELECT id FROM tasks WHERE state = :state AND state NOT IN ('ready', 'running') AND id > :after
ORDER BY id LIMIT :most;

-- name: numbers_ready
-- List the ready tasks, oldest first: those to examine, and those set aside.
SELECT id FROM (
    SELECT id FROM tasks WHERE state = 'ready' AND aside IS NULL
    UNION ALL
    SELECT id FROM tasks WHERE aside IS NOT NULL) found
WHERE id > :after ORDER BY id LIMIT :most;

-- name: numbers_running
-- List the running tasks, oldest first: each has an open lease.
SELECT t.id FROM leases l CROSS JOIN tasks t
WHERE l.state <> 'released' AND t.id = l.task AND t.state = 'running' AND t.id > :after
ORDER BY t.id LIMIT :most;

-- name: numbers_of_all
-- List all tasks, oldest first.
SELECT id FROM tasks WHERE id > :after ORDER BY id LIMIT :most;

-- name: numbers_of_run
-- List the tasks of a run, oldest first.
SELECT id FROM tasks WHERE run = :run AND id > :after ORDER BY id LIMIT :most;

-- name: numbers_sent_by
-- List the tasks of a sender, oldest first.
SELECT id FROM tasks WHERE created_by = :sender AND id > :after ORDER BY id LIMIT :most;

-- name: numbers_with
-- List the tasks that a worker runs, that are pinned to it and have not ended, or offered to it.
SELECT id FROM (
    SELECT task AS id FROM leases WHERE state <> 'released' AND worker = :worker AND kind = 'attempt'
    UNION
    SELECT id FROM tasks WHERE pinned IS NOT NULL AND pinned = :worker AND state IN
        ('waiting', 'ready', 'offered', 'running', 'parked', 'paused', 'blocked', 'gating')
    UNION
    SELECT id FROM tasks WHERE until IS NOT NULL AND state = 'offered' AND offered_to = :worker) found
WHERE id > :after ORDER BY id LIMIT :most;

-- name: summaries
-- List tasks by their numbers (the keys of a JSON object) as summaries, oldest first.
SELECT t.id, t.name, t.run, t.tenant, t.state, t.reason, t.since, t.agent, t.stage,
       t.class AS klass, t.priority, COALESCE(a.worker, t.offered_to, t.pinned) AS worker,
       t.created_by, t.submitted
FROM (SELECT CAST(key AS BIGINT) AS id FROM json_each(:ids)) k LEFT JOIN tasks t ON t.id = k.id
LEFT JOIN attempts a ON a.task = t.id AND a.number = t.attempt AND t.state = 'running'
WHERE COALESCE(t.state, '') <> '' ORDER BY t.id;

-- name: summaries_after
-- List the summaries of all tasks after a number.
SELECT t.id, t.name, t.run, t.tenant, t.state, t.reason, t.since, t.agent, t.stage,
       t.class AS klass, t.priority, COALESCE(a.worker, t.offered_to, t.pinned) AS worker,
       t.created_by, t.submitted
FROM tasks t LEFT JOIN attempts a ON a.task = t.id AND a.number = t.attempt AND t.state = 'running'
WHERE t.id > :after ORDER BY t.id LIMIT :most;

-- name: tasks
-- List tasks by their numbers (the keys of a JSON object), oldest first.
SELECT * FROM tasks WHERE id IN (SELECT CAST(key AS BIGINT) FROM json_each(:ids)) ORDER BY id;

-- name: last_task
-- Return the highest task number so far.
SELECT COALESCE(MAX(id), 0) AS value FROM tasks;

-- name: add_task
-- Add a task. It waits until its needs are met.
INSERT INTO tasks (id, run, name, repo, tenant, text, request, attached, state, since, class, priority, agent, stage,
                   demand, files, path_seconds, submitted, story, gang, pinned, pin_until, created_by)
VALUES (:id, :run, :name, :repo, :tenant, :text, :request, :attached, 'waiting', :now, :class, :priority, :agent,
        :stage, :demand, :files, :path_seconds, :submitted, :story, :gang, :pinned, :pin_until, :created_by);

-- name: add_edge
-- Add a need of a task.
INSERT INTO edges (task, needs) VALUES (:task, :needs);

-- name: unmet_needs
-- List the needs of a task that are not met.
SELECT n.* FROM edges e JOIN tasks n ON n.id = e.needs
WHERE e.task = :task AND n.state NOT IN ('done', 'skipped')
  AND NOT COALESCE(
      n.state = 'gating' AND n.story = (SELECT t.story FROM tasks t WHERE t.id = e.task), FALSE)
ORDER BY n.id;

-- name: needs_of
-- List the needs of a task, each with the commit of its latest attempt.
SELECT n.*, a.candidate AS commit_left FROM edges e JOIN tasks n ON n.id = e.needs
LEFT JOIN attempts a ON a.task = n.id AND a.number = n.attempt
WHERE e.task = :task ORDER BY n.id;

-- name: related_commits
-- List the bases and candidates of a task, of the task that it continues, of its needs, of its parts
-- and of the other parts of its story.
WITH related AS (
    SELECT CAST(:task AS BIGINT) AS id UNION SELECT CAST(:continues AS BIGINT)
    UNION SELECT needs FROM edges WHERE task = :task
    UNION SELECT id FROM tasks WHERE story = :task
    UNION SELECT k.id FROM tasks t JOIN tasks k ON k.story = t.story WHERE t.id = :task
)
SELECT a.base, a.candidate FROM related r JOIN attempts a ON a.task = r.id;

-- name: queue
-- List the ad-hoc tasks that wait, have never run and are needed by no task.
SELECT id, class, priority, path_seconds, submitted FROM tasks t
WHERE run IS NULL AND state IN ('waiting', 'ready', 'offered') AND attempt = 0
  AND NOT EXISTS (SELECT 1 FROM edges e WHERE e.needs = t.id);

-- name: queue_length
-- Count the waiting ad-hoc tasks.
SELECT COUNT(*) AS value FROM tasks
WHERE run IS NULL AND state IN ('waiting', 'ready', 'offered');

-- name: set_files
-- Set the files that a task asks for at its next attempt.
UPDATE tasks SET files = :files WHERE id = :id;

-- name: set_stage
-- Set the next stage of a task.
UPDATE tasks SET stage = :stage, agent = :agent, demand = :demand WHERE id = :id;

-- name: set_request
-- Set the author's wishes for a task, after a person has changed its agent.
UPDATE tasks SET request = :request WHERE id = :id;

-- name: set_result
-- Set the result of a task.
UPDATE tasks SET result = :result WHERE id = :id;

-- name: set_pin
-- Pin a task to a worker, for good or until a time, or to none.
UPDATE tasks SET pinned = :pinned, pin_until = :until WHERE id = :id;

-- name: unpin
-- Unpin a task that its worker gives back.
UPDATE tasks SET pinned = NULL, pin_until = NULL WHERE id = :id AND pinned = :worker;

-- name: state_counts
-- Count the tasks in each state.
SELECT state, COUNT(*) AS tasks FROM tasks WHERE state NOT IN ('ready', 'running') GROUP BY state
UNION ALL
SELECT 'ready', COUNT(*) FROM (
    SELECT id FROM tasks WHERE state = 'ready' AND aside IS NULL
    UNION ALL
    SELECT id FROM tasks WHERE aside IS NOT NULL) ready
UNION ALL
SELECT 'running', COUNT(*) FROM leases l CROSS JOIN tasks t
WHERE l.state <> 'released' AND t.id = l.task AND t.state = 'running';
