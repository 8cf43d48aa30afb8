-- Overviews: lists of many tasks for people.

-- name: unended_runs
-- List the runs that have not ended, oldest first.
SELECT id, state, submitted, blocked FROM runs WHERE state <> 'ended' ORDER BY submitted, id;

-- name: counts_by_run
-- Count the tasks in each state of every run that has not ended, and the waiting ad-hoc tasks.
-- Barriers and stories are left out: no agent does them; a team counts as its task. Here and below a cross join makes
-- SQLite start from the runs, which are few.
SELECT t.run, t.state, COUNT(*) AS tasks FROM runs r CROSS JOIN tasks t
WHERE r.state <> 'ended' AND t.run = r.id
  AND CASE WHEN t.agent IS NULL THEN EXISTS (SELECT 1 FROM teams m WHERE m.task = t.id)
      ELSE t.story IS NULL OR NOT EXISTS (SELECT 1 FROM teams m WHERE m.task = t.story) END
GROUP BY t.run, t.state
UNION ALL
SELECT NULL, state, COUNT(*) FROM tasks
WHERE run IS NULL AND state IN ('waiting', 'ready', 'offered') GROUP BY state;

-- name: ended_lately
-- How many tasks of the newest ended runs are in each state, newest runs first.
SELECT r.id AS run, t.state, COUNT(*) AS tasks
FROM (SELECT id, submitted FROM runs WHERE state = 'ended'
      ORDER BY submitted DESC, id LIMIT :most) r CROSS JOIN tasks t
WHERE t.run = r.id
  AND CASE WHEN t.agent IS NULL THEN EXISTS (SELECT 1 FROM teams m WHERE m.task = t.id)
      ELSE t.story IS NULL OR NOT EXISTS (SELECT 1 FROM teams m WHERE m.task = t.story) END
GROUP BY r.id, r.submitted, t.state ORDER BY r.submitted DESC, r.id;

-- name: tasks_at_work
-- List the tasks that are neither waiting, ready nor ended, those that need a person first; also
-- the ready tasks that ask a person (they claim no files, and so are never set aside), and the tasks that ended without success while other tasks wait for them.
SELECT t.id, t.run, t.name, t.state, t.since, t.reason, t.until, t.agent, t.stage, t.offered_to,
       t.attempt, t.text, t.request, a.started, a.ended, a.worker,
       (SELECT COUNT(*) FROM hops h WHERE h.task = t.id) AS hops
FROM (
    SELECT id FROM tasks WHERE state IN ('blocked', 'gating', 'offered', 'parked', 'paused')
      AND state NOT IN ('ready', 'running')
    UNION ALL
    SELECT n.id FROM tasks n WHERE n.state IN ('failed', 'cancelled', 'evicted')
      AND n.state NOT IN ('ready', 'running') AND EXISTS (
          SELECT 1 FROM edges e JOIN tasks w ON w.id = e.task
          WHERE e.needs = n.id AND w.state = 'waiting')
    UNION ALL
    SELECT id FROM tasks WHERE state = 'ready' AND aside IS NULL AND agent = 'human'
    UNION ALL
    SELECT r.id FROM leases l CROSS JOIN tasks r
    WHERE l.state <> 'released' AND r.id = l.task AND r.state = 'running') k
CROSS JOIN tasks t LEFT JOIN attempts a ON a.task = t.id AND a.number = t.attempt
WHERE t.id = k.id
ORDER BY CASE t.state WHEN 'running' THEN 1 WHEN 'gating' THEN 2 WHEN 'offered' THEN 3
         WHEN 'parked' THEN 4 WHEN 'paused' THEN 5 ELSE 0 END, t.id
LIMIT :most;

-- name: leases_at_work
-- List the attempts and checks under way, each with its run; '': without a run.
SELECT l.task, CASE WHEN l.kind = 'check' THEN l.holder ELSE COALESCE(t.run, '') END AS run
FROM leases l LEFT JOIN tasks t ON t.id = l.task
WHERE l.state <> 'released' AND l.kind IN ('attempt', 'check');

-- name: runs_coming_back
-- List the runs with tasks that time brings back.
SELECT DISTINCT run FROM tasks
WHERE state IN ('parked', 'offered') AND state NOT IN ('ready', 'running');

-- name: runs_at_the_gate
-- List the runs with open entries.
SELECT DISTINCT run, state FROM entries WHERE state IN ('queued', 'landing');

-- name: runs_with_more
-- List the runs that have not ended, and have tasks that have not.
SELECT r.id FROM runs r WHERE r.state <> 'ended' AND EXISTS (
    SELECT 1 FROM tasks t WHERE t.run = r.id
      AND t.state NOT IN ('done', 'failed', 'cancelled', 'skipped', 'evicted'));

-- name: ready_alike
-- List of every bucket the first of the tasks that wait for the same claim, or for none.
SELECT f.*
FROM (SELECT MIN(id) AS id FROM tasks WHERE state = 'ready' AND aside IS NULL GROUP BY bucket
      UNION ALL
      SELECT MIN(id) FROM tasks WHERE aside IS NOT NULL GROUP BY bucket, aside) k
JOIN tasks f ON f.id = k.id
ORDER BY f.id;

-- name: tasks_for_people
-- List the tasks that wait for a person; some paused tasks may still have an agent at work. A
-- task that asks a person claims no files, and so is never set aside. A story in review is waiting
-- for its subtasks.
SELECT t.id, t.run, t.name, CASE WHEN k.kind = 'review' THEN 'gating' ELSE t.state END AS state,
       t.reason, t.text, t.request, t.since, t.path_seconds, a.outcome
FROM (
    SELECT id, '' AS kind FROM tasks
    WHERE state IN ('blocked', 'paused') AND state NOT IN ('ready', 'running')
    UNION ALL
    SELECT n.id, '' FROM tasks n WHERE n.state IN ('failed', 'cancelled', 'evicted')
      AND n.state NOT IN ('ready', 'running') AND EXISTS (
          SELECT 1 FROM edges e JOIN tasks w ON w.id = e.task
          WHERE e.needs = n.id AND w.state = 'waiting')
    UNION ALL
    SELECT task, 'review' FROM reviews WHERE state = 'open'
    UNION ALL
    SELECT id, '' FROM tasks WHERE state = 'ready' AND aside IS NULL AND agent = 'human') k
CROSS JOIN tasks t LEFT JOIN attempts a ON a.task = t.id AND a.number = t.attempt
WHERE t.id = k.id ORDER BY t.id;

-- name: stopped_agents
-- List the agents that must not start before a person resumes them.
SELECT agent, reason, since FROM stopped_agents ORDER BY agent;

-- name: ready_tasks
-- List the columns that the order of ready tasks depends on.
SELECT id, class, priority, path_seconds, submitted FROM tasks
WHERE state = 'ready' AND aside IS NULL
UNION ALL
SELECT id, class, priority, path_seconds, submitted FROM tasks WHERE aside IS NOT NULL;

-- name: tasks_called
-- List the tasks of a name in runs that have not ended.
SELECT t.* FROM runs r CROSS JOIN tasks t
WHERE r.state <> 'ended' AND t.run = r.id AND t.name = :name ORDER BY t.id;

-- name: tasks_called_before
-- List the tasks of a name in runs that have ended, the latest runs first.
SELECT t.* FROM runs r CROSS JOIN tasks t
WHERE r.state = 'ended' AND t.run = r.id AND t.name = :name ORDER BY r.submitted DESC, r.id;

-- name: names
-- List the names of the tasks of runs that have not ended, the latest runs first.
SELECT t.id, t.run, t.name, t.state, r.submitted FROM runs r CROSS JOIN tasks t
WHERE r.state <> 'ended' AND t.run = r.id AND t.agent IS NOT NULL ORDER BY r.submitted DESC, t.id;

-- name: milestones_of_task
-- List the events of a task besides its admissions and the progress of agents, oldest first.
SELECT id, at, kind, run, task, data FROM events
WHERE task = :task AND kind <> 'task_admitted' AND kind <> 'progress' ORDER BY id;

-- name: open_entries
-- List the open entries, by run, in order of arrival.
SELECT * FROM entries WHERE state IN ('queued', 'landing') ORDER BY run, number;

-- name: costs_of_run
-- List the costs of the attempts at each task of a run, by agent.
SELECT t.id AS task, t.name, a.agent, COUNT(*) AS attempts, CAST(SUM(a.tokens) AS BIGINT) AS tokens,
       CAST(SUM(a.micro_usd) AS BIGINT) AS micro_usd
FROM tasks t JOIN attempts a ON a.task = t.id WHERE t.run = :run
GROUP BY t.id, t.name, a.agent ORDER BY t.id, a.agent;

-- name: costs_of_the_rest
-- List the same costs of tasks that belong to no run.
SELECT t.id AS task, t.name, a.agent, COUNT(*) AS attempts, CAST(SUM(a.tokens) AS BIGINT) AS tokens,
       CAST(SUM(a.micro_usd) AS BIGINT) AS micro_usd
FROM tasks t JOIN attempts a ON a.task = t.id WHERE t.run IS NULL
GROUP BY t.id, t.name, a.agent ORDER BY t.id, a.agent;

-- name: budget
-- Read a consumable: its limit, the use of ended leases, the reservations of open leases.
SELECT (SELECT capacity FROM limits WHERE resource = :resource) AS cap,
       COALESCE((SELECT s.total FROM spending s WHERE s.resource = :resource
                 ORDER BY s.number DESC LIMIT 1), 0) AS spent,
       COALESCE((SELECT CAST(SUM(c.amount) AS BIGINT) FROM leases l CROSS JOIN lease_costs c
                 WHERE l.state <> 'released' AND c.fence = l.fence AND c.resource = :resource),
                0) AS reserved;

-- name: typical_cost
-- Read the mean cost of the latest attempts that reported one.
SELECT AVG(micro_usd) AS micro_usd FROM (
    SELECT micro_usd FROM attempts ORDER BY task DESC, number DESC LIMIT 200
) AS latest WHERE micro_usd > 0;

-- name: costs_by_agent
-- List the costs of the attempts of each agent.
SELECT agent, CAST(SUM(tokens) AS BIGINT) AS tokens,
       CAST(SUM(micro_usd) AS BIGINT) AS micro_usd FROM attempts
GROUP BY agent ORDER BY agent;

-- name: latest_progress
-- Find the latest report of each task's agent, for tasks given as the keys of a JSON object.
SELECT e.task, e.at, e.data FROM events e JOIN (
    SELECT task, MAX(id) AS id FROM events
    WHERE task IN (SELECT CAST(key AS BIGINT) FROM json_each(:tasks))
      AND kind <> 'task_admitted' AND kind = 'progress' GROUP BY task) k ON k.id = e.id;

-- name: messages_of_task
-- List all messages to a task, each with the first report of its agent after the delivery.
SELECT m.id, m.sender, m.text, m.at, m.delivered, (
    SELECT MIN(e.at) FROM events e
    WHERE e.task = m.to_task AND e.kind <> 'task_admitted' AND e.kind = 'progress'
      AND e.at > m.delivered) AS heard
FROM messages m WHERE m.to_task = :task ORDER BY m.id;

-- name: work_index
-- List the tasks of unended runs and of no run that have not ended, with the columns that their
-- group and a filter depend on. `like` is a pattern in lower case; NULL: every text.
SELECT t.id, t.run, t.state, t.agent, t.stage, t.reason FROM runs r CROSS JOIN tasks t
WHERE r.state <> 'ended' AND t.run = r.id AND t.agent IS NOT NULL
  AND t.state NOT IN ('done', 'failed', 'cancelled', 'skipped', 'evicted')
  AND (CAST(:run AS TEXT) IS NULL OR r.id = :run)
  AND (CAST(:like AS TEXT) IS NULL
       OR LOWER(t.run || '/' || t.name || ' ' || t.agent || ' ' || t.text || ' ' || t.request)
          LIKE :like ESCAPE '!')
UNION ALL
SELECT t.id, t.run, t.state, t.agent, t.stage, t.reason FROM tasks t
WHERE t.id IN (
    SELECT id FROM tasks WHERE run IS NULL AND state IN ('waiting', 'ready', 'offered')
    UNION ALL SELECT id FROM tasks WHERE state NOT IN ('ready', 'running')
        AND state IN ('parked', 'blocked', 'paused', 'gating')
    UNION ALL SELECT task FROM leases WHERE state <> 'released' AND task IS NOT NULL)
  AND t.run IS NULL AND CAST(:run AS TEXT) IS NULL
  AND t.state NOT IN ('done', 'failed', 'cancelled', 'skipped', 'evicted')
  AND (CAST(:like AS TEXT) IS NULL
       OR LOWER(t.name || ' ' || t.text || ' ' || t.request) LIKE :like ESCAPE '!');

-- name: work_rows
-- List tasks by their numbers (the keys of a JSON object) with their latest attempts.
SELECT t.id, t.run, t.name, t.state, t.since, t.reason, t.until, t.agent, t.stage, t.attempt,
       t.offered_to, t.text, t.request, a.started, a.ended, a.worker
FROM tasks t LEFT JOIN attempts a ON a.task = t.id AND a.number = t.attempt
WHERE t.id IN (SELECT CAST(key AS BIGINT) FROM json_each(:ids)) ORDER BY t.id;

-- name: unmet_needs_of
-- List the needs that are not met of tasks given by their numbers (the keys of a JSON object).
SELECT e.task, n.name, n.agent FROM edges e JOIN tasks n ON n.id = e.needs
WHERE e.task IN (SELECT CAST(key AS BIGINT) FROM json_each(:tasks))
  AND n.state NOT IN ('done', 'skipped') ORDER BY e.task, n.id;
