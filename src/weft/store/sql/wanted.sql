-- The view `weft.wanted`, for autoscalers, which ask PostgreSQL itself. A promise to programs of other
-- people: its columns stay (docs/many-machines.md). Every upgrade makes it anew, after the migrations.

-- By repository and set of labels (`arm64,gpu`; empty: none), the slots that could start a task now if a
-- worker with these labels had them. A task counts if the limits have room for it and for the tasks
-- before it, and no task before it asks for one of its files; slots and memory of workers do not count,
-- and at most 1,000 tasks are looked at.
CREATE VIEW wanted (repo, labels, slots) AS
WITH visible AS (
    SELECT id, repo, demand, files, COALESCE((
        SELECT STRING_AGG(SUBSTRING(d.key FROM 7), ',' ORDER BY d.key COLLATE "C")
        FROM json_each_text(CAST(t.demand AS JSON)) d WHERE d.key LIKE 'label:%'), '') AS labels,
        ROW_NUMBER() OVER (
        ORDER BY class DESC, priority DESC, path_seconds DESC, submitted, id) AS place
    FROM tasks t
    WHERE state = 'ready' AND aside IS NULL AND repo NOT LIKE 'swarm:%'
      AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = t.run AND r.untested)
      AND NOT EXISTS (SELECT 1 FROM stopped_agents s WHERE s.agent = t.agent)
      AND NOT EXISTS (SELECT 1 FROM store WHERE drained IS NOT NULL)
    ORDER BY place LIMIT 1000
), sharing AS (
    SELECT v.id, ROW_NUMBER() OVER (PARTITION BY v.repo, f.key ORDER BY v.place) AS number
    FROM visible v CROSS JOIN json_each_text(CAST(v.files AS JSON)) f
), room AS (
    SELECT l.resource, l.capacity
        - COALESCE((SELECT SUM(c.amount) FROM leases o JOIN lease_costs c ON c.fence = o.fence
                    WHERE o.state <> 'released' AND c.resource = l.resource), 0)
        - COALESCE((SELECT s.total FROM spending s WHERE s.resource = l.resource
                    ORDER BY s.number DESC LIMIT 1), 0) AS free
    FROM limits l
), asked AS (
    SELECT v.id, d.key AS resource,
           SUM(CAST(d.value AS BIGINT)) OVER (PARTITION BY d.key ORDER BY v.place) AS total
    FROM visible v CROSS JOIN json_each_text(CAST(v.demand AS JSON)) d
)
SELECT repo, labels, COUNT(*)
FROM visible v
WHERE NOT EXISTS (SELECT 1 FROM sharing s WHERE s.id = v.id AND s.number > 1)
  AND NOT EXISTS (SELECT 1 FROM asked a JOIN room r ON r.resource = a.resource
                  WHERE a.id = v.id AND a.total > r.free
                    AND a.resource NOT LIKE 'worker:%' AND a.resource NOT LIKE 'host:%')
GROUP BY repo, labels
