-- Workers.

-- name: worker
-- One worker.
SELECT * FROM workers WHERE id = :id;

-- name: workers_present
-- Workers that have not left.
SELECT * FROM workers WHERE departed IS NULL ORDER BY id;

-- name: processes_of_host
-- The worker processes of a host, since its boot, that have not left.
SELECT pid, pid_start FROM workers
WHERE departed IS NULL AND host = :host AND boot = :boot AND pid IS NOT NULL
  AND pid_start IS NOT NULL;

-- name: worker_use
-- How many slots a worker has, and how many of them are taken.
SELECT (SELECT capacity FROM limits WHERE resource = :resource) AS capacity,
       (SELECT CAST(SUM(c.amount) AS BIGINT) FROM leases l CROSS JOIN lease_costs c
        WHERE l.state <> 'released' AND c.fence = l.fence AND c.resource = :resource) AS used;

-- name: register_worker
-- A worker comes, or comes back.
INSERT INTO workers (id, name, kind, host, boot, pid, pid_start, agents, repos, heartbeat, seen)
VALUES (:id, :name, :kind, :host, :boot, :pid, :pid_start, :agents, :repos, 1, :now)
ON CONFLICT (id) DO UPDATE SET name = excluded.name, kind = excluded.kind, host = excluded.host,
    boot = excluded.boot, pid = excluded.pid, pid_start = excluded.pid_start,
    agents = excluded.agents, repos = excluded.repos, heartbeat = workers.heartbeat + 1, seen = excluded.seen,
    departed = NULL;

-- name: heartbeat
-- A sign of life.
UPDATE workers SET heartbeat = heartbeat + 1, seen = :now
WHERE id = :id AND departed IS NULL;

-- name: depart
-- A worker has left, or was found dead.
UPDATE workers SET departed = :now WHERE id = :id AND departed IS NULL;

-- name: offers_to
-- Offers that one worker has not answered.
SELECT id, run FROM tasks WHERE until IS NOT NULL AND state = 'offered' AND offered_to = :worker
ORDER BY +id;

-- name: pinned_waiting
-- Tasks that only this worker may take and that it has not started.
SELECT COUNT(*) AS value FROM tasks
WHERE pinned = :worker AND state IN ('waiting', 'ready', 'offered', 'parked');
