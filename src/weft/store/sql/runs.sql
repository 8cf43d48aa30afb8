-- Runs.

-- name: add_run
-- Add a run that waits for its place among the runs.
INSERT INTO runs (id, repo, tenant, state, submitted, plan, base, branch, target, alternates, untested)
VALUES (:id, :repo, :tenant, 'waiting', :submitted, :plan, :base, :branch, :target, :alternates,
        :untested);

-- name: run
-- Read a run, with the gate's settings in force.
SELECT r.*, s.gate FROM runs r JOIN run_settings s ON s.run = r.id AND s.revision = r.revision
WHERE r.id = :id;

-- name: runs
-- List every run, newest first.
SELECT r.*, s.gate FROM runs r JOIN run_settings s ON s.run = r.id AND s.revision = r.revision
ORDER BY r.submitted DESC, r.id;

-- name: add_run_settings
-- Add the first or a later revision of a run's settings.
INSERT INTO run_settings (run, revision, gate, workspace, agents, at)
VALUES (:run, :revision, :gate, :workspace, :agents, :at);

-- name: set_revision
-- Put another revision of a run's settings in force.
UPDATE runs SET revision = :revision WHERE id = :id;

-- name: run_settings
-- List every revision of a run's settings, in order.
SELECT * FROM run_settings WHERE run = :run ORDER BY revision;

-- name: current_settings
-- Read the settings of a run that are in force.
SELECT s.* FROM runs r JOIN run_settings s ON s.run = r.id AND s.revision = r.revision
WHERE r.id = :run;

-- name: runs_after
-- List a page of runs in the same order, after a run or from the first.
SELECT r.*, s.gate FROM runs r JOIN run_settings s ON s.run = r.id AND s.revision = r.revision
WHERE CAST(:after AS TEXT) IS NULL
   OR (-r.submitted, r.id) > (SELECT -b.submitted, b.id FROM runs b WHERE b.id = :after)
ORDER BY r.submitted DESC, r.id LIMIT :most;

-- name: waiting_runs
-- List the runs that wait for a place, oldest first.
SELECT * FROM runs WHERE state = 'waiting' ORDER BY submitted, id;

-- name: running_runs
-- List the runs that have their place and have not ended; few, because of the limit `runs`.
SELECT * FROM runs WHERE state = 'running' ORDER BY id;

-- name: tasks_of_run
-- List the tasks of a run, in the order of its plan.
SELECT * FROM tasks WHERE run = :run ORDER BY id;

-- name: states_of_run
-- List the states of a run's tasks with their times: enough to see the changed tasks.
SELECT id, state, since FROM tasks WHERE run = :run ORDER BY id;

-- name: edges_of_run
-- List the needs within a run.
SELECT e.task, e.needs FROM tasks t JOIN edges e ON e.task = t.id WHERE t.run = :run
ORDER BY e.task, e.needs;

-- name: attempts_of_run
-- List the attempts of a run's tasks.
SELECT a.* FROM tasks t JOIN attempts a ON a.task = t.id WHERE t.run = :run
ORDER BY a.task, a.number;

-- name: events_of_run
-- List the events of a run, and of limits anywhere, without the progress of agents.
SELECT id, at, kind, run, task, data FROM events
WHERE (run = :run AND kind <> 'progress')
   OR (run IS NULL AND kind IN ('limit_set', 'limit_dropped', 'provider_penalised'))
ORDER BY id;

-- name: uses_between
-- List the amounts of attempts and checks during a period, a row for each resource.
SELECT l.*, t.run, c.resource, c.amount
FROM leases l JOIN lease_costs c ON c.fence = l.fence LEFT JOIN tasks t ON t.id = l.task
WHERE l.kind IN ('attempt', 'check') AND l.granted <= :until
  AND (l.released IS NULL OR l.released >= :since)
ORDER BY l.fence, c.resource;

-- name: set_run_state
-- Set the state of a run.
UPDATE runs SET state = :state WHERE id = :id;

-- name: set_target
-- Set the branch that moves to trunk once a run has landed.
UPDATE runs SET target = :target, target_state = 'open', target_text = '' WHERE id = :id;

-- name: settle_target
-- Record the result of moving the branch of a run.
UPDATE runs SET target_state = :state, target_text = :text WHERE id = :id;

-- name: waiting_tasks
-- List the waiting tasks of a run.
SELECT id FROM tasks WHERE run = :run AND state = 'waiting';

-- name: unended_task
-- Find a task of a run that has not ended.
SELECT id FROM tasks
WHERE run = :run AND state NOT IN ('done', 'failed', 'cancelled', 'skipped', 'evicted') LIMIT 1;
