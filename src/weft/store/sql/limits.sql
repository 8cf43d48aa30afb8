-- Limits, use and penalties.

-- name: limits
-- List every limit as it is set.
SELECT resource, capacity, owner FROM limits ORDER BY resource;

-- name: ledger
-- List all that a decision needs besides tasks and claims, in a single round trip:
--   limit    a resource and its capacity
--   used     a resource and the amount that open leases hold: the only source of truth for use
--   spent    a consumable and the amount that ended leases used
--   penalty  a provider, its level, its start, and the successes since
--   stopped  an agent that must not start, and the reason
--   worker   a present worker or member, with its host and agents
--   repos    the repositories a worker can work on, if not any
--   labels   the labels of a worker that has some
--   held_up  the first task in order that cannot start, its first fence, and if it is reserved
--   turn     the tenants of the latest admissions, by fence
--   fence    the latest fence
--   due      the earliest time at which a parked or offered task comes back or a preference
--            ends
--   run      there are runs that wait for a place
--   untested a run of which no agent starts before its base has passed a check
--   drained  the time at which admissions were stopped
-- The cross join makes SQLite start from the open leases, which are few.
SELECT 'limit' AS kind, resource AS name, capacity AS amount, CAST(NULL AS BIGINT) AS other,
       CAST(NULL AS DOUBLE PRECISION) AS at, owner AS text, CAST(NULL AS TEXT) AS more
FROM limits
UNION ALL
SELECT 'used', c.resource, CAST(SUM(c.amount) AS BIGINT), NULL, NULL, NULL, NULL
FROM leases l CROSS JOIN lease_costs c
WHERE l.state <> 'released' AND c.fence = l.fence
GROUP BY c.resource
UNION ALL
SELECT 'spent', resource, total, NULL, NULL, NULL, NULL
FROM (SELECT l.resource, (
          SELECT s.total FROM spending s WHERE s.resource = l.resource
          ORDER BY s.number DESC LIMIT 1) AS total
      FROM limits l) spent
WHERE total IS NOT NULL
UNION ALL
SELECT 'penalty', provider, level, successes, since, NULL, NULL FROM penalties
UNION ALL
SELECT 'stopped', agent, NULL, NULL, NULL, reason, NULL FROM stopped_agents
UNION ALL
SELECT 'worker', id, CASE WHEN token IS NULL THEN 0 ELSE 1 END, NULL, seen,
       host, agents
FROM workers WHERE departed IS NULL
UNION ALL
SELECT 'repos', id, NULL, NULL, NULL, repos, NULL FROM workers
WHERE departed IS NULL AND repos IS NOT NULL
UNION ALL
SELECT 'labels', id, NULL, NULL, NULL, labels, NULL FROM workers
WHERE departed IS NULL AND labels <> '[]'
UNION ALL
SELECT 'held_up', NULL, task, since, CASE WHEN reserved THEN 1 ELSE 0 END, NULL, NULL
FROM reservation
UNION ALL
SELECT 'turn', turn, fence, NULL, NULL, NULL, NULL
FROM (SELECT turn, fence FROM leases WHERE turn IS NOT NULL ORDER BY fence DESC LIMIT :turns) t
UNION ALL
SELECT 'fence', NULL, MAX(fence), NULL, NULL, NULL, NULL FROM leases
UNION ALL
SELECT 'due', NULL, NULL, NULL, MIN(until), NULL, NULL FROM tasks WHERE until IS NOT NULL
UNION ALL
SELECT 'due', NULL, NULL, NULL, MIN(pin_until), NULL, NULL FROM tasks
WHERE pin_until IS NOT NULL AND state = 'ready'
UNION ALL
SELECT 'run', id, NULL, NULL, NULL, NULL, NULL FROM runs WHERE state = 'waiting'
UNION ALL
SELECT 'untested', id, NULL, NULL, NULL, NULL, NULL FROM runs WHERE untested
UNION ALL
SELECT 'drained', NULL, NULL, NULL, drained, NULL, NULL FROM store WHERE drained IS NOT NULL;

-- name: set_limit
-- Set a limit, new or not.
INSERT INTO limits (resource, capacity, owner) VALUES (:resource, :capacity, :owner)
ON CONFLICT (resource) DO UPDATE SET capacity = excluded.capacity, owner = excluded.owner;

-- name: drop_limit
-- Delete a limit whose owner is gone or no longer sets it.
DELETE FROM limits WHERE resource = :resource;

-- name: drop_limits_of
-- Delete all limits of an owner: a run that has ended, a host without workers.
DELETE FROM limits WHERE owner = :owner;

-- name: stop_agent
-- Stop an agent until a person resumes it.
INSERT INTO stopped_agents (agent, reason, since) VALUES (:agent, :reason, :since)
ON CONFLICT (agent) DO UPDATE SET reason = excluded.reason;

-- name: resume_agent
-- Resume an agent.
DELETE FROM stopped_agents WHERE agent = :agent;

-- name: set_penalty
-- Raise a provider's penalty.
INSERT INTO penalties (provider, level, since, successes) VALUES (:provider, :level, :since, 0)
ON CONFLICT (provider) DO UPDATE SET level = excluded.level, since = excluded.since, successes = 0;

-- name: count_success
-- Count a success with a penalised provider.
UPDATE penalties SET successes = successes + 1 WHERE provider = :provider;

-- name: units_taken
-- List the numbered units of a resource that open leases hold.
SELECT unit FROM lease_units WHERE resource = :resource;

-- name: identity
-- Read the identity and recorded place of this store; no row before it has its first limits.
SELECT identity, place FROM store WHERE identity <> '';

-- name: set_place
-- Record the directory of a store in a file.
UPDATE store SET place = :place;

-- name: set_identity
-- Give a copied store its own identity.
UPDATE store SET identity = :identity;

-- name: times
-- Return the times that present workers have agreed on, as JSON.
SELECT tuning AS value FROM store;

-- name: set_times
-- Set the times that workers agree on.
UPDATE store SET tuning = :tuning;

-- name: drained
-- Return the time at which admissions were stopped; NULL: they continue.
SELECT drained AS value FROM store;

-- name: set_drained
-- Stop admissions, or let them continue.
UPDATE store SET drained = :since;

-- name: found_store
-- Give a new store its identity.
UPDATE store SET identity = :identity WHERE identity = '';
