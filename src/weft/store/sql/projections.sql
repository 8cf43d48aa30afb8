-- Projections: how far the files and programs that follow a run's events have come.

-- name: request_projection
-- A projection is wanted from now on; one that was closed or failed starts again where it stopped.
INSERT INTO projections (run, name, host, path, handled)
VALUES (:run, :name, :host, :path, :handled)
ON CONFLICT (run, name) DO UPDATE SET host = excluded.host, path = excluded.path, open = TRUE,
    tries = 0, failure = '', skipped = '{}';

-- name: drop_projection
-- A projection is not wanted any more.
DELETE FROM projections WHERE run = :run AND name = :name;

-- name: open_projections
-- The projections of a repository's runs that are behind or may fall behind, with their holders.
SELECT p.*, l.worker, l.deadline FROM projections p JOIN runs r ON r.id = p.run
LEFT JOIN leases l ON l.kind = 'projection' AND l.state <> 'released'
    AND l.holder = p.run || '/' || p.name
WHERE p.open AND r.repo = :repo ORDER BY p.run, p.name;

-- name: projections_of
-- The projections of one run, with their holders.
SELECT p.*, l.worker FROM projections p
LEFT JOIN leases l ON l.kind = 'projection' AND l.state <> 'released'
    AND l.holder = p.run || '/' || p.name
WHERE p.run = :run ORDER BY p.name;

-- name: projection
-- One projection.
SELECT * FROM projections WHERE run = :run AND name = :name;

-- name: advance_projection
-- A projection has handled the events up to a number.
UPDATE projections SET handled = :handled, memory = :memory, open = :open, tries = 0, failure = ''
WHERE run = :run AND name = :name;

-- name: fail_projection
-- A try failed.
UPDATE projections SET tries = tries + 1, failure = :failure, open = :open
WHERE run = :run AND name = :name;

-- name: skip_projection
-- Some host cannot carry a projection out.
UPDATE projections SET skipped = :skipped WHERE run = :run AND name = :name;
