-- Moves of branches to the landed work of runs.

-- name: add_branch_landing
-- Record that a branch is about to move.
INSERT INTO branch_landings (number, run, repo, branch, trunk, old, new, tree, checkout, state, at)
SELECT COALESCE(MAX(number), 0) + 1, :run, :repo, :branch, :trunk, :old, :new, :tree, :checkout,
       'intended', :at
FROM branch_landings;

-- name: open_branch_landings
-- The moves of a repository's branches that have begun and not ended, oldest first.
SELECT * FROM branch_landings WHERE repo = :repo AND state = 'intended' ORDER BY number;

-- name: branch_landings_of_run
-- The moves of branches to the work of a run, oldest first.
SELECT * FROM branch_landings WHERE run = :run ORDER BY number;

-- name: branch_landing
-- A move by its number.
SELECT * FROM branch_landings WHERE number = :number;

-- name: end_branch_landing
-- A move ends, unless it has ended.
UPDATE branch_landings SET state = :state WHERE number = :number AND state = 'intended';
