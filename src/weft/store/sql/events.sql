-- Events: append-only, numbered in commit order because there is one writer at a time.

-- name: append_event
-- Add one event with the next number.
INSERT INTO events (id, at, kind, run, task, data)
SELECT COALESCE(MAX(id), 0) + 1, :at, :kind, :run, :task, :data FROM events;

-- name: events_after
-- The events that follow a known one, oldest first.
SELECT id, at, kind, run, task, data FROM events WHERE id > :after ORDER BY id LIMIT :most;

-- name: events_told
-- The same, with the tenant whose run or task each concerns.
SELECT e.id, e.at, e.kind, e.run, e.task, e.data, COALESCE(r.tenant, t.tenant) AS tenant
FROM events e LEFT JOIN runs r ON r.id = e.run LEFT JOIN tasks t ON t.id = e.task
WHERE e.id > :after ORDER BY e.id LIMIT :most;

-- name: events_of_task
-- What happened to one task besides its admissions, oldest first.
SELECT id, at, kind, run, task, data FROM events
WHERE task = :task AND kind <> 'task_admitted' ORDER BY id;

-- name: last_event
-- The number of the newest event, 0 if there is none.
SELECT COALESCE(MAX(id), 0) AS value FROM events;

-- name: events_of_kind
-- The events of one kind about the tasks of a run, oldest first.
SELECT e.id, e.at, e.kind, e.run, e.task, e.data
FROM tasks t CROSS JOIN events e
WHERE t.run = :run AND e.task = t.id AND e.kind <> 'task_admitted'
    AND e.kind = :kind
ORDER BY e.id;

-- name: lately_taken
-- The gates and checks that were leased lately, oldest first.
SELECT data FROM events
WHERE id > (SELECT COALESCE(MAX(id), 0) FROM events) - :most AND kind = 'lease_taken' ORDER BY id;
