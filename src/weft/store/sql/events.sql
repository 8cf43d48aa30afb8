-- Events: append-only, numbered in commit order because there is a single writer at a time.

-- name: append_event
-- Add an event with the next number.
INSERT INTO events (id, at, kind, run, task, data)
SELECT COALESCE(MAX(id), 0) + 1, :at, :kind, :run, :task, :data FROM events;

-- name: events_after
-- List the events after a number, oldest first.
SELECT id, at, kind, run, task, data FROM events WHERE id > :after ORDER BY id LIMIT :most;

-- name: events_told
-- List the events after a number.
SELECT id, at, kind, run, task, data FROM events WHERE id > :after ORDER BY id LIMIT :most;

-- name: events_of_task
-- List the events of a task besides its admissions, oldest first.
SELECT id, at, kind, run, task, data FROM events
WHERE task = :task AND kind <> 'task_admitted' ORDER BY id;

-- name: last_event
-- Return the number of the newest event, 0 if there is none.
SELECT COALESCE(MAX(id), 0) AS value FROM events;

-- name: events_of_kind
-- List the events of a kind about the tasks of a run, oldest first.
SELECT e.id, e.at, e.kind, e.run, e.task, e.data
FROM tasks t CROSS JOIN events e
WHERE t.run = :run AND e.task = t.id AND e.kind <> 'task_admitted'
    AND e.kind = :kind
ORDER BY e.id;

-- name: lately_taken
-- The gates and checks that were leased lately, oldest first.
SELECT data FROM events
WHERE id > (SELECT COALESCE(MAX(id), 0) FROM events) - :most AND kind = 'lease_taken' ORDER BY id;
