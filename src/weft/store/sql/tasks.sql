-- Tasks.

-- name: task
-- One task by its number.
SELECT * FROM tasks WHERE id = :id;

-- name: task_by_name
-- One task of a run by the name its plan gives it.
SELECT * FROM tasks WHERE run = :run AND name = :name;

-- name: numbers_in
-- Tasks in one state other than ready and running, oldest first.
SELECT id FROM tasks WHERE state = :state AND state NOT IN ('ready', 'running') AND id > :after
ORDER BY id LIMIT :most;

-- name: numbers_ready
-- Ready tasks, oldest first: the heads that nothing holds up, those that wait, who follows them.
SELECT id FROM (
    SELECT id FROM tasks WHERE head AND aside IS NULL
    UNION ALL
    SELECT id FROM tasks WHERE head AND aside IS NOT NULL
    UNION ALL
    SELECT id FROM tasks WHERE state = 'ready' AND NOT head) found
WHERE id > :after ORDER BY id LIMIT :most;

-- name: numbers_running
-- Running tasks, oldest first: each has an open lease.
SELECT t.id FROM leases l CROSS JOIN tasks t
WHERE l.state <> 'released' AND t.id = l.task AND t.state = 'running' AND t.id > :after
ORDER BY t.id LIMIT :most;

-- name: numbers_of_all
-- Tasks, oldest first.
SELECT id FROM tasks WHERE id > :after ORDER BY id LIMIT :most;

-- name: numbers_of_run
-- Tasks of a run, oldest first.
SELECT id FROM tasks WHERE run = :run AND id > :after ORDER BY id LIMIT :most;

-- name: numbers_sent_by
-- Tasks that somebody sent, oldest first.
SELECT id FROM tasks WHERE created_by = :sender AND id > :after ORDER BY id LIMIT :most;

-- name: numbers_with
-- Tasks that a worker runs, that are pinned to it and have not ended, or that it was offered.
SELECT id FROM (
    SELECT task AS id FROM leases WHERE state <> 'released' AND worker = :worker AND kind = 'attempt'
    UNION
    SELECT id FROM tasks WHERE pinned IS NOT NULL AND pinned = :worker AND state IN
        ('waiting', 'ready', 'offered', 'running', 'parked', 'paused', 'blocked', 'gating')
    UNION
    SELECT id FROM tasks WHERE until IS NOT NULL AND state = 'offered' AND offered_to = :worker) found
WHERE id > :after ORDER BY id LIMIT :most;

-- name: summaries
-- Tasks by their numbers (the keys of a JSON object) as lists show them, oldest first.
SELECT t.id, t.name, t.run, t.tenant, t.state, t.reason, t.since, t.agent, t.stage,
       t.class AS klass, t.priority, COALESCE(a.worker, t.offered_to, t.pinned) AS worker,
       t.created_by, t.submitted
FROM (SELECT CAST(key AS BIGINT) AS id FROM json_each(:ids)) k LEFT JOIN tasks t ON t.id = k.id
LEFT JOIN attempts a ON a.task = t.id AND a.number = t.attempt AND t.state = 'running'
WHERE COALESCE(t.state, '') <> '' ORDER BY t.id;

-- name: summaries_after
-- The same of all tasks after a number.
SELECT t.id, t.name, t.run, t.tenant, t.state, t.reason, t.since, t.agent, t.stage,
       t.class AS klass, t.priority, COALESCE(a.worker, t.offered_to, t.pinned) AS worker,
       t.created_by, t.submitted
FROM tasks t LEFT JOIN attempts a ON a.task = t.id AND a.number = t.attempt AND t.state = 'running'
WHERE t.id > :after ORDER BY t.id LIMIT :most;

-- name: tasks
-- Tasks by their numbers (the keys of a JSON object), oldest first.
SELECT * FROM tasks WHERE id IN (SELECT CAST(key AS BIGINT) FROM json_each(:ids)) ORDER BY id;

-- name: last_task
-- The highest task number so far.
SELECT COALESCE(MAX(id), 0) AS value FROM tasks;

-- name: add_task
-- A task is submitted. It waits until it is found startable.
INSERT INTO tasks (id, run, name, repo, tenant, text, request, attached, state, since, class, priority, agent, stage,
                   demand, files, path_seconds, submitted, story, gang, pinned, pin_until, created_by)
VALUES (:id, :run, :name, :repo, :tenant, :text, :request, :attached, 'waiting', :now, :class, :priority, :agent,
        :stage, :demand, :files, :path_seconds, :submitted, :story, :gang, :pinned, :pin_until, :created_by);

-- name: add_edge
-- A task needs another.
INSERT INTO edges (task, needs) VALUES (:task, :needs);

-- name: unmet_needs
-- What a task still needs.
SELECT n.* FROM edges e JOIN tasks n ON n.id = e.needs
WHERE e.task = :task AND n.state NOT IN ('done', 'skipped')
  AND NOT COALESCE(
      n.state = 'gating' AND n.story = (SELECT t.story FROM tasks t WHERE t.id = e.task), FALSE)
ORDER BY n.id;

-- name: needs_of
-- What a task needs, each with the commit its latest attempt left.
SELECT n.*, a.candidate AS commit_left FROM edges e JOIN tasks n ON n.id = e.needs
LEFT JOIN attempts a ON a.task = n.id AND a.number = n.attempt
WHERE e.task = :task ORDER BY n.id;

-- name: queue
-- The ad-hoc tasks that wait and have never run, without those others need.
SELECT id, class, priority, path_seconds, submitted FROM tasks t
WHERE run IS NULL AND state IN ('waiting', 'ready', 'offered') AND attempt = 0
  AND NOT EXISTS (SELECT 1 FROM edges e WHERE e.needs = t.id);

-- name: queue_length
-- How many ad-hoc tasks wait.
SELECT COUNT(*) AS value FROM tasks
WHERE run IS NULL AND state IN ('waiting', 'ready', 'offered');

-- name: set_files
-- A task will ask for other files at its next attempt.
UPDATE tasks SET files = :files WHERE id = :id;

-- name: set_stage
-- A task goes on with the next step of its pipeline.
UPDATE tasks SET stage = :stage, agent = :agent, demand = :demand WHERE id = :id;

-- name: set_request
-- The author's wishes for a task, after a person has changed its agent.
UPDATE tasks SET request = :request WHERE id = :id;

-- name: set_result
-- What a task's accepted attempt reported.
UPDATE tasks SET result = :result WHERE id = :id;

-- name: set_pin
-- A task belongs to one worker, for good or until then, or to nobody in particular.
UPDATE tasks SET pinned = :pinned, pin_until = :until WHERE id = :id;

-- name: unpin
-- A worker gives a task back that was meant for it.
UPDATE tasks SET pinned = NULL, pin_until = NULL WHERE id = :id AND pinned = :worker;

-- name: state_counts
-- How many tasks are in each state.
SELECT state, COUNT(*) AS tasks FROM tasks WHERE state NOT IN ('ready', 'running') GROUP BY state
UNION ALL
SELECT 'ready', COUNT(*) FROM (
    SELECT id FROM tasks WHERE head AND aside IS NULL
    UNION ALL
    SELECT id FROM tasks WHERE head AND aside IS NOT NULL
    UNION ALL
    SELECT id FROM tasks WHERE state = 'ready' AND NOT head) ready
UNION ALL
SELECT 'running', COUNT(*) FROM leases l CROSS JOIN tasks t
WHERE l.state <> 'released' AND t.id = l.task AND t.state = 'running';
