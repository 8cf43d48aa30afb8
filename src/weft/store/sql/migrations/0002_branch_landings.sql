-- `weft land`: the branch a run started from, and the moves of branches to the work of runs.

ALTER TABLE runs ADD COLUMN branch TEXT NOT NULL DEFAULT ''; -- the branch it started from; '': none

-- A branch moves from old to new. Written before it moves; at most one of a branch is open.
CREATE TABLE branch_landings (
    number BIGINT PRIMARY KEY,
    run TEXT NOT NULL,
    repo TEXT NOT NULL,
    branch TEXT NOT NULL, -- without refs/heads/
    trunk TEXT NOT NULL, -- the commit of the run's trunk whose work the branch takes in
    old TEXT NOT NULL,
    new TEXT NOT NULL,
    tree TEXT NOT NULL, -- of new
    checkout TEXT NOT NULL, -- the working tree that follows the branch; '': none
    state TEXT NOT NULL CHECK (state IN ('intended', 'landed', 'withdrawn')),
    at DOUBLE PRECISION NOT NULL
);
CREATE INDEX branch_landings_run ON branch_landings (run, number);
CREATE UNIQUE INDEX branch_landings_open ON branch_landings (repo, branch) WHERE state = 'intended';
