-- Projections: the progress of the files and programs that follow a run's events.

-- name: request_projection
-- Request a projection; a closed or failed projection starts again where it stopped.
INSERT INTO projections (run, name, host, path, handled, memory)
VALUES (:run, :name, :host, :path, :handled, :memory)
ON CONFLICT (run, name) DO UPDATE SET host = excluded.host, path = excluded.path, open = TRUE,
    tries = 0, failure = '', skipped = '{}';

-- name: drop_projection
-- Delete a projection that is no longer wanted.
DELETE FROM projections WHERE run = :run AND name = :name;

-- name: open_projections
-- List the projections of a repository's runs that are behind or may fall behind, with holders.
SELECT p.*, l.worker, l.deadline FROM projections p JOIN runs r ON r.id = p.run
LEFT JOIN leases l ON l.kind = 'projection' AND l.state <> 'released'
    AND l.holder = p.run || '/' || p.name
WHERE p.open AND r.repo = :repo ORDER BY p.run, p.name;

-- name: projections_of
-- List the projections of a run, with their holders.
SELECT p.*, l.worker FROM projections p
LEFT JOIN leases l ON l.kind = 'projection' AND l.state <> 'released'
    AND l.holder = p.run || '/' || p.name
WHERE p.run = :run ORDER BY p.name;

-- name: projection
-- Read a projection.
SELECT * FROM projections WHERE run = :run AND name = :name;

-- name: advance_projection
-- Record that a projection has handled the events up to a number.
UPDATE projections SET handled = :handled, memory = :memory, open = :open, tries = 0, failure = ''
WHERE run = :run AND name = :name;

-- name: fail_projection
-- Record a failed try of a projection.
UPDATE projections SET tries = tries + 1, failure = :failure, open = :open
WHERE run = :run AND name = :name;

-- name: skip_projection
-- Record a host that cannot carry out a projection.
UPDATE projections SET skipped = :skipped WHERE run = :run AND name = :name;
