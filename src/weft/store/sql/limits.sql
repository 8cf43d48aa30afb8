-- Limits, use and penalties.

-- name: limits
-- Every limit as it is set.
SELECT resource, capacity, owner FROM limits ORDER BY resource;

-- name: usage
-- What the open leases take of each resource. The only source of truth for use.
SELECT c.resource, CAST(SUM(c.amount) AS BIGINT) AS used
FROM leases l JOIN lease_costs c ON c.fence = l.fence
WHERE l.state <> 'released'
GROUP BY c.resource;

-- name: spending
-- What was spent of each consumable that has a limit.
SELECT s.resource, CAST(SUM(s.amount) AS BIGINT) AS spent
FROM limits l JOIN spending s ON s.resource = l.resource
GROUP BY s.resource;

-- name: penalties
-- Every provider's penalty as it was last raised.
SELECT provider, level, since, successes FROM penalties;

-- name: set_limit
-- Set a limit, new or not.
INSERT INTO limits (resource, capacity, owner) VALUES (:resource, :capacity, :owner)
ON CONFLICT (resource) DO UPDATE SET capacity = excluded.capacity, owner = excluded.owner;

-- name: drop_limit
-- Forget a limit: its owner is gone, or has none any more.
DELETE FROM limits WHERE resource = :resource;

-- name: drop_run_limits
-- Forget the limits of a run that has ended.
DELETE FROM limits WHERE owner = :owner;

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
-- Whether this store has been given its first limits.
SELECT identity FROM store WHERE identity <> '';

-- name: found_store
-- From now on the limits here are the truth.
UPDATE store SET identity = :identity WHERE identity = '';
