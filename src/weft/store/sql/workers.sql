-- Workers.

-- name: worker
-- Read a worker.
SELECT * FROM workers WHERE id = :id;

-- name: workers_present
-- List the workers that have not left.
SELECT * FROM workers WHERE departed IS NULL ORDER BY id;

-- name: processes_of_host
-- List the worker processes of a host, since its boot, that have not left.
SELECT pid, pid_start FROM workers
WHERE departed IS NULL AND host = :host AND boot = :boot AND pid IS NOT NULL
  AND pid_start IS NOT NULL;

-- name: other_hosts
-- Tell whether a process of another host is present.
SELECT EXISTS (
    SELECT 1 FROM workers WHERE departed IS NULL AND kind = 'process' AND host <> :host) AS value;

-- name: hosts_that_left
-- List the agents and repositories of worker hosts that have left since a time.
SELECT agents, repos FROM workers
WHERE departed >= :since AND kind = 'process' AND NOT gates AND agents IS NOT NULL
  AND repos IS NOT NULL;

-- name: worker_use
-- Return the slots of a worker and the number in use.
SELECT (SELECT capacity FROM limits WHERE resource = :resource) AS capacity,
       (SELECT CAST(SUM(c.amount) AS BIGINT) FROM leases l CROSS JOIN lease_costs c
        WHERE l.state <> 'released' AND c.fence = l.fence AND c.resource = :resource) AS used;

-- name: register_worker
-- Add a worker, or bring it back.
INSERT INTO workers (id, name, kind, host, boot, pid, pid_start, agents, repos, heartbeat, seen, gates,
    lacks, labels, alone, checks)
VALUES (:id, :name, :kind, :host, :boot, :pid, :pid_start, :agents, :repos, 1, :now, :gates, :lacks,
    :labels, :alone, :checks)
ON CONFLICT (id) DO UPDATE SET name = excluded.name, kind = excluded.kind, host = excluded.host,
    boot = excluded.boot, pid = excluded.pid, pid_start = excluded.pid_start,
    agents = excluded.agents, repos = excluded.repos, heartbeat = workers.heartbeat + 1, seen = excluded.seen,
    departed = NULL, gates = excluded.gates, lacks = excluded.lacks,
    labels = excluded.labels, alone = excluded.alone, checks = excluded.checks;

-- name: heartbeat
-- Record a sign of life.
UPDATE workers SET heartbeat = heartbeat + 1, seen = :now
WHERE id = :id AND departed IS NULL;

-- name: depart
-- Record that a worker has left, or was found dead.
UPDATE workers SET departed = :now WHERE id = :id AND departed IS NULL;

-- name: offers_to
-- List the offers that a worker has not answered.
SELECT id, run FROM tasks WHERE until IS NOT NULL AND state = 'offered' AND offered_to = :worker
ORDER BY +id;

-- name: pinned_waiting
-- Count the tasks that only this worker may take and that it has not started.
SELECT COUNT(*) AS value FROM tasks
WHERE pinned = :worker AND state IN ('waiting', 'ready', 'offered', 'parked');
