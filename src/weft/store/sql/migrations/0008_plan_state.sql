-- `weft run --state`: a projection that keeps a file with the state of the plan.

CREATE TABLE new_projections (
    run TEXT NOT NULL,
    name TEXT NOT NULL CHECK (name IN
        ('plan_marks', 'plan_state', 'issue_tracker', 'notifications', 'target_branch')),
    host TEXT NOT NULL DEFAULT '', -- the host of the file; '': any host with the repository
    path TEXT NOT NULL DEFAULT '', -- of the plan file, or of the state file
    open BOOLEAN NOT NULL DEFAULT TRUE, -- FALSE once the end of the run is handled or given up
    handled BIGINT NOT NULL, -- the number of the last event handled
    memory TEXT NOT NULL DEFAULT '[]', -- texts that the projection needs to resume, as JSON
    tries BIGINT NOT NULL DEFAULT 0, -- failures since the last success
    failure TEXT NOT NULL DEFAULT '', -- the last of them
    skipped TEXT NOT NULL DEFAULT '{}', -- reasons of hosts that cannot carry it out, as JSON
    PRIMARY KEY (run, name)
);
INSERT INTO new_projections (run, name, host, path, open, handled, memory, tries, failure, skipped)
SELECT run, name, host, path, open, handled, memory, tries, failure, skipped FROM projections;
DROP TABLE projections;
ALTER TABLE new_projections RENAME TO projections;
CREATE INDEX projections_open ON projections (run, name) WHERE open;
