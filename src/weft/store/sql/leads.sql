-- What leads of weft's own sent, and how to reach them.

-- name: sent_by
-- The latest tasks that somebody sent, latest first.
SELECT * FROM tasks WHERE created_by = :sender ORDER BY id DESC LIMIT :most;

-- name: ends_of_sent
-- What may be the end of a task that somebody sent.
SELECT e.id, e.at, e.kind, e.data, t.id AS task, t.name, t.reason, t.result
FROM tasks t CROSS JOIN events e
WHERE t.created_by = :sender AND e.task = t.id AND e.id > :after
  AND e.kind IN ('attempt_finished', 'task_landed', 'task_approved', 'task_cancelled',
                 'task_skipped', 'task_evicted')
ORDER BY e.id;

-- name: open_lead
-- The latest task of a lead that has not ended.
SELECT MAX(id) AS id FROM tasks
WHERE stage = 'lead' AND run IS NULL AND repo = :repo AND agent = :agent
  AND tenant = :tenant AND state NOT IN ('done', 'failed', 'cancelled', 'skipped', 'evicted')
HAVING MAX(id) IS NOT NULL;
