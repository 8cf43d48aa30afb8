-- The gate: what asks to land, what was checked, and how trunk moved.

-- name: add_entry
-- Something asks to land.
INSERT INTO entries (id, number, run, story, state, looked_at, base, tasks, work, needs, alone, at)
SELECT :id, COALESCE(MAX(number), 0) + 1, :run, :story, 'queued', :looked_at, NULL, :tasks, :work,
       :needs, :alone, :at
FROM entries;

-- name: set_entry
-- A task asks to land as part of this.
UPDATE tasks SET entry = :entry WHERE id = :id;

-- name: entries
-- Everything that ever asked to land in a run.
SELECT * FROM entries WHERE run = :run ORDER BY number;

-- name: entry
-- One entry.
SELECT * FROM entries WHERE id = :id AND run = :run;

-- name: set_entry_state
-- An entry lands or goes back.
UPDATE entries SET state = :state WHERE id = :id;

-- name: set_entry_base
-- The gate has seen it, on this tip.
UPDATE entries SET base = :base WHERE run = :run AND state = 'queued' AND base IS NULL;

-- name: add_verdict
-- One run of the checks has ended.
INSERT INTO verdicts (run, number, base, combination, purpose, tree, check_id, passed, seconds,
                      output, at)
SELECT :run, COALESCE(MAX(number), 0) + 1, :base, :combination, :purpose, :tree, :check_id,
       :passed, :seconds, :output, :at
FROM verdicts WHERE run = :run;

-- name: verdicts
-- All that was checked in a run, in the order it was.
SELECT * FROM verdicts WHERE run = :run ORDER BY number;

-- name: verdicts_on_tree
-- How often a tree was checked in one way, in any run; those that were taken over left out.
SELECT passed, output, seconds FROM verdicts
WHERE tree = :tree AND check_id = :check_id AND seconds > 0 ORDER BY at, number;

-- name: add_conflict
-- An entry does not merge.
INSERT INTO conflicts (run, base, entry, others, report, at)
VALUES (:run, :base, :entry, :others, :report, :at)
ON CONFLICT (run, base, entry, others) DO NOTHING;

-- name: conflicts
-- All that did not merge in a run.
SELECT * FROM conflicts WHERE run = :run ORDER BY at, entry;

-- name: add_landing
-- Trunk is about to move.
INSERT INTO landings (run, sequence, old, new, tree, entries, commits, state, at)
SELECT :run, COALESCE(MAX(sequence), 0) + 1, :old, :new, :tree, :entries, :commits, 'intended',
       :at
FROM landings WHERE run = :run;

-- name: open_landing
-- The landing of a run that was begun and not ended.
SELECT * FROM landings WHERE run = :run AND state = 'intended';

-- name: landings
-- How trunk moved.
SELECT * FROM landings WHERE run = :run ORDER BY sequence;

-- name: end_landing
-- Trunk has moved.
UPDATE landings SET state = 'landed' WHERE run = :run AND sequence = :sequence;

-- name: block_run
-- The gate of a run waits for a person; empty: it goes on.
UPDATE runs SET blocked = :reason WHERE id = :run;

-- name: entry_of_task
-- The open entry a task is part of.
SELECT e.* FROM tasks t JOIN entries e ON e.id = t.entry
WHERE t.id = :task AND e.state IN ('queued', 'landing');
