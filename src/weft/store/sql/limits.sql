-- Limits, use and penalties.

-- name: limits
-- Every limit as it is set.
SELECT resource, capacity, owner FROM limits ORDER BY resource;

-- name: ledger
-- All that a decision needs besides tasks and claims, at one moment and in one round trip:
--   limit    a resource and its capacity
--   used     a resource and what the open leases take of it: the only source of truth for use
--   spent    a consumable and what ended leases used up of it
--   penalty  a provider, its level, since when, successes since
--   stopped  an agent nobody should start, and why
--   worker   one that has not left, with its host and agents; a member, with its tenant instead
--   repos    the repositories a worker can work on, if not any
--   held_up  the task that is first in order but cannot go, since which fence, whether reserved
--   turn     the tenants of the latest admissions, by fence
--   fence    the latest one
--   due      the earliest time at which something parked or offered comes back, or whom it prefers
--            has had its time
--   run      there are runs that wait for a place
--   untested a run of which no agent starts before its base has passed a check
--   drained  since when nothing is admitted any more
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
       CASE WHEN token IS NULL THEN host ELSE tenant END, agents
FROM workers WHERE departed IS NULL
UNION ALL
SELECT 'repos', id, NULL, NULL, NULL, repos, NULL FROM workers
WHERE departed IS NULL AND repos IS NOT NULL
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
-- Forget a limit: its owner is gone, or has none any more.
DELETE FROM limits WHERE resource = :resource;

-- name: drop_limits_of
-- Forget all limits of an owner: a run that has ended, a host nobody works on.
DELETE FROM limits WHERE owner = :owner;

-- name: stop_agent
-- Nobody should start this agent before a person has looked.
INSERT INTO stopped_agents (agent, reason, since) VALUES (:agent, :reason, :since)
ON CONFLICT (agent) DO UPDATE SET reason = excluded.reason;

-- name: resume_agent
-- A person has looked.
DELETE FROM stopped_agents WHERE agent = :agent;

-- name: set_penalty
-- Raise a provider's penalty.
INSERT INTO penalties (provider, level, since, successes) VALUES (:provider, :level, :since, 0)
ON CONFLICT (provider) DO UPDATE SET level = excluded.level, since = excluded.since, successes = 0;

-- name: count_success
-- A success with a penalised provider.
UPDATE penalties SET successes = successes + 1 WHERE provider = :provider;

-- name: units_taken
-- The numbers of a resource that open leases hold.
SELECT unit FROM lease_units WHERE resource = :resource;

-- name: identity
-- The identity and recorded place of this store; no row before it has its first limits.
SELECT identity, place FROM store WHERE identity <> '';

-- name: set_place
-- Record the directory of a store in a file.
UPDATE store SET place = :place;

-- name: set_identity
-- Give a copied store its own identity.
UPDATE store SET identity = :identity;

-- name: move_runs
-- Record the new path of the repository of these runs.
UPDATE runs SET repo = :new WHERE repo = :old;

-- name: move_tasks
-- Record the new path of the repository of these tasks.
UPDATE tasks SET repo = :new WHERE repo = :old;

-- name: move_buckets
-- Record the new path of the repository of these ready tasks.
UPDATE buckets SET repo = :new WHERE repo = :old;

-- name: move_claims
-- Record the new path of the repository of these claims.
UPDATE claims SET repo = :new WHERE repo = :old;

-- name: times
-- The times that workers present have agreed on, as JSON.
SELECT tuning AS value FROM store;

-- name: set_times
-- Nobody else is at work: these times hold from now on.
UPDATE store SET tuning = :tuning;

-- name: drained
-- Since when nothing is admitted any more; NULL: all goes on.
SELECT drained AS value FROM store;

-- name: set_drained
-- From now on nothing is admitted, or everything is again.
UPDATE store SET drained = :since;

-- name: found_store
-- From now on the limits here are the truth.
UPDATE store SET identity = :identity WHERE identity = '';
