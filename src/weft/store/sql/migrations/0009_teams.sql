-- Teams: several entrants work on a task, and the evidence chooses among their candidates.

CREATE TABLE teams (
    task BIGINT PRIMARY KEY,
    run TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'open', 'decided', 'undecided', 'ended')),
    round BIGINT NOT NULL, -- 1, and one more each time a person retries the task
    base TEXT, -- the commit that all entrants of the round start from
    winner BIGINT -- the entrant's task
);
CREATE INDEX teams_open ON teams (run, task) WHERE state = 'open';

CREATE TABLE entrants (
    task BIGINT PRIMARY KEY,
    team BIGINT NOT NULL,
    number BIGINT NOT NULL, -- among the entrants of the team, from 1
    round BIGINT NOT NULL,
    last BOOLEAN NOT NULL, -- the attempt after all others failed
    result TEXT NOT NULL DEFAULT 'open' CHECK (result IN
        ('open', 'green', 'failed', 'conflict', 'gate_red', 'task_red')),
    report TEXT NOT NULL DEFAULT '', -- why it is out
    arrival BIGINT NOT NULL DEFAULT 0, -- the number of the entry that passed
    tree TEXT NOT NULL DEFAULT '', -- of its candidate
    lines BIGINT NOT NULL DEFAULT 0, -- of its diff
    tests TEXT NOT NULL DEFAULT '{}' -- test files that it added, as the keys of a JSON object
);
CREATE UNIQUE INDEX entrants_number ON entrants (team, number);

-- A team holds a place among the teams of its run, and the dollars of its entrants.
CREATE TABLE leases_with_teams (
    fence BIGINT PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('attempt', 'run', 'gate', 'check', 'projection', 'team')),
    holder TEXT NOT NULL,
    task BIGINT,
    attempt BIGINT,
    worker TEXT,
    host TEXT,
    state TEXT NOT NULL CHECK (state IN ('held', 'suspect', 'released')),
    granted DOUBLE PRECISION NOT NULL,
    deadline DOUBLE PRECISION,
    released DOUBLE PRECISION,
    ended TEXT,
    turn TEXT,
    CHECK ((state = 'released') = (released IS NOT NULL))
);
INSERT INTO leases_with_teams (fence, kind, holder, task, attempt, worker, host, state, granted, deadline,
                         released, ended, turn)
SELECT fence, kind, holder, task, attempt, worker, host, state, granted, deadline, released, ended,
       turn
FROM leases;
DROP TABLE leases;
ALTER TABLE leases_with_teams RENAME TO leases;
CREATE UNIQUE INDEX leases_open ON leases (task) WHERE state <> 'released';
CREATE UNIQUE INDEX leases_gate ON leases (holder) WHERE kind = 'gate' AND state <> 'released';
CREATE UNIQUE INDEX leases_projection ON leases (holder)
    WHERE kind = 'projection' AND state <> 'released';
CREATE UNIQUE INDEX leases_team ON leases (holder) WHERE kind = 'team' AND state <> 'released';
