-- Teams and their entrants.

-- name: add_team
-- Add the team of a task. It waits until its first entrant is admitted.
INSERT INTO teams (task, run, state, round) VALUES (:task, :run, :state, 1);

-- name: team
-- Read the team of a task.
SELECT * FROM teams WHERE task = :task;

-- name: open_teams
-- List the teams at work.
SELECT * FROM teams WHERE state = 'open' ORDER BY run, task;

-- name: set_team_state
-- Move a team on; a winner is the task of an entrant.
UPDATE teams SET state = :state, winner = :winner WHERE task = :task;

-- name: start_round
-- Let a team begin anew, from a base of its own.
UPDATE teams SET state = 'waiting', round = round + 1, base = NULL, winner = NULL
WHERE task = :task;

-- name: fix_team_base
-- Record the commit that all entrants start from; the first is kept.
UPDATE teams SET base = COALESCE(base, :base) WHERE task = :task AND state = 'open';

-- name: add_entrant
-- Add an entrant of a team.
INSERT INTO entrants (task, team, number, round, last)
VALUES (:task, :team, :number, :round, :last);

-- name: entrant
-- Read an entrant.
SELECT * FROM entrants WHERE task = :task;

-- name: entrants_of
-- List the entrants of a team with the cost of their attempts.
SELECT e.*, (SELECT COALESCE(SUM(a.micro_usd), 0) FROM attempts a WHERE a.task = e.task) AS cost
FROM entrants e WHERE e.team = :team ORDER BY e.number;

-- name: set_entrant_result
-- Record why an entrant is out.
UPDATE entrants SET result = :result, report = :report WHERE task = :task AND result = 'open';

-- name: set_entrant_green
-- Record a candidate that passed its checks, with its measures.
UPDATE entrants SET result = 'green', report = '', arrival = :arrival, tree = :tree, lines = :lines,
    tests = :tests
WHERE task = :task;

-- name: drop_lost_needs
-- Delete the needs of a team's task that are entrants or comparisons which ended without success.
DELETE FROM edges WHERE task = :team AND needs IN (
    SELECT id FROM tasks WHERE story = :team AND state IN ('failed', 'cancelled'));

-- name: test_verdicts
-- List the verdicts on candidates with the tests of other candidates.
SELECT combination, passed FROM verdicts WHERE run = :run AND purpose = 'tests' ORDER BY number;

-- name: open_lease_in_team
-- Find an open lease of an entrant or a comparison.
SELECT l.fence FROM tasks t JOIN leases l ON l.task = t.id AND l.state <> 'released'
WHERE t.story = :team LIMIT 1;

-- name: spent_total
-- Return the sum that ended leases used of a consumable.
SELECT COALESCE((SELECT total FROM spending WHERE resource = :resource
                 ORDER BY number DESC LIMIT 1), 0) AS value;

-- name: spent_by_team
-- Return the sum that ended leases of a team used of the budget of its run.
SELECT COALESCE(SUM(s.amount), 0) AS value FROM leases l JOIN spending s ON s.fence = l.fence
WHERE l.kind = 'team' AND l.holder = :holder AND s.resource = :resource;

-- name: set_gang
-- Put a task into a gang, or into none.
UPDATE tasks SET gang = :gang WHERE id = :id;
