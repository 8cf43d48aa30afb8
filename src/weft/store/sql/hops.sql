-- Hand-overs between agents, and sleeping tasks.

-- name: add_hop
-- Add the next hand-over of a task.
INSERT INTO hops (task, number, attempt, giver, agent, note, args, tree, candidate, base, at)
SELECT :task, COALESCE(MAX(number), 0) + 1, :attempt, :giver, :agent, :note, :args, :tree,
       :candidate, :base, :at
FROM hops WHERE task = :task;

-- name: hops_of
-- List the hand-overs of a task in order.
SELECT * FROM hops WHERE task = :task ORDER BY number;

-- name: hops_of_run
-- List the hand-overs of all tasks of a run in order.
SELECT h.* FROM tasks t CROSS JOIN hops h WHERE t.run = :run AND h.task = t.id
ORDER BY h.task, h.number;

-- name: discount_hops
-- Count the hand-overs of a task no longer: a person reopened it.
UPDATE hops SET counts = FALSE WHERE task = :task;

-- name: add_sleep
-- Let an event wake a parked task.
INSERT INTO sleeps (task, kind, subject) VALUES (:task, :kind, :subject)
ON CONFLICT (task) DO UPDATE SET kind = excluded.kind, subject = excluded.subject;

-- name: drop_sleep
-- Let no event wake a task that is no longer parked.
DELETE FROM sleeps WHERE task = :task;

-- name: sleepers
-- List the tasks that an event wakes.
SELECT t.id, t.run FROM sleeps s JOIN tasks t ON t.id = s.task
WHERE s.kind = :kind AND s.subject = :subject ORDER BY t.id;

-- name: landings_since
-- Count the landings of a run after a time, or from a commit on: `at` is the time of the intent.
SELECT COUNT(*) AS value FROM landings
WHERE run = :run AND state = 'landed' AND (at > :since OR old = :base);
