-- The gate: entries, verdicts, conflicts and landings.

-- name: add_entry
-- Add an entry.
INSERT INTO entries (id, number, run, story, state, looked_at, base, tasks, work, needs, alone, at)
SELECT :id, COALESCE(MAX(number), 0) + 1, :run, :story, 'queued', :looked_at, NULL, :tasks, :work,
       :needs, :alone, :at
FROM entries;

-- name: set_entry
-- Record the entry that a task is part of.
UPDATE tasks SET entry = :entry WHERE id = :id;

-- name: entries
-- List every entry of a run, open or settled.
SELECT * FROM entries WHERE run = :run ORDER BY number;

-- name: entries_waiting
-- List the open entries of a run.
SELECT * FROM entries WHERE run = :run AND state IN ('queued', 'landing') ORDER BY number;

-- name: entries_named
-- List entries by their ids (the keys of a JSON object).
SELECT * FROM entries WHERE id IN (SELECT key FROM json_each(:names)) ORDER BY number;

-- name: entries_settled
-- List the states of the latest settled entries of a run, the last first.
SELECT state FROM entries
WHERE run = :run AND state IN ('landed', 'rejected') ORDER BY number DESC LIMIT :most;

-- name: entry
-- Read an entry.
SELECT * FROM entries WHERE id = :id AND run = :run;

-- name: set_entry_state
-- Set the state of an entry: it lands or goes back.
UPDATE entries SET state = :state WHERE id = :id;

-- name: set_entry_base
-- Record the tip on which the gate first saw an entry.
UPDATE entries SET base = :base WHERE run = :run AND state = 'queued' AND base IS NULL;

-- name: add_verdict
-- Add the verdict of a check.
INSERT INTO verdicts (run, number, base, combination, purpose, tree, check_id, commands, passed,
                      seconds, output, at, host)
SELECT :run, COALESCE(MAX(number), 0) + 1, :base, :combination, :purpose, :tree, :check_id,
       :commands, :passed, :seconds, :output, :at, :host
FROM verdicts WHERE run = :run;

-- name: verdicts
-- List the verdicts of a run in order.
SELECT number, base, combination, purpose, tree, check_id, commands, passed, seconds, host
FROM verdicts
WHERE run = :run ORDER BY number;

-- name: verdicts_on
-- List the verdicts of a run on these tips of trunk (the keys of a JSON object).
SELECT number, base, combination, purpose, tree, check_id, commands, passed, seconds, host
FROM verdicts
WHERE run = :run AND base IN (SELECT key FROM json_each(:bases)) ORDER BY number;

-- name: verdict_output
-- Read the output of a check.
SELECT output FROM verdicts WHERE run = :run AND number = :number;

-- name: failed_outputs
-- List the outputs of the failed checks of a run.
SELECT number, output FROM verdicts WHERE run = :run AND NOT passed ORDER BY number;

-- name: known_pass
-- Find a check, in any run, that a tree passed. Verdicts that were taken over are left out.
SELECT output FROM verdicts
WHERE tree = :tree AND check_id = :check_id AND passed AND seconds > 0 ORDER BY at LIMIT 1;

-- name: other_verdict
-- Find an opposite verdict of the same check on the same tree in this run.
SELECT number FROM verdicts
WHERE run = :run AND tree = :tree AND check_id = :check_id AND passed <> :passed LIMIT 1;

-- name: add_conflict
-- Add an entry that does not merge.
INSERT INTO conflicts (run, base, entry, others, report, at)
VALUES (:run, :base, :entry, :others, :report, :at)
ON CONFLICT (run, base, entry, others) DO NOTHING;

-- name: conflicts
-- List the merge conflicts of a run.
SELECT * FROM conflicts WHERE run = :run ORDER BY at, entry;

-- name: conflicts_on
-- List the merge conflicts of a run on these tips of trunk (the keys of a JSON object).
SELECT * FROM conflicts
WHERE run = :run AND base IN (SELECT key FROM json_each(:bases)) ORDER BY at, entry;

-- name: add_landing
-- Add the intent to move trunk.
INSERT INTO landings
    (run, sequence, old, new, tree, entries, commits, revision, every_commit, state, at)
SELECT :run, COALESCE(MAX(sequence), 0) + 1, :old, :new, :tree, :entries, :commits, :revision,
       :every_commit, 'intended', :at
FROM landings WHERE run = :run;

-- name: open_landing
-- Read the landing of a run that was begun and not ended.
SELECT * FROM landings WHERE run = :run AND state = 'intended';

-- name: landings
-- List the landings of a run in order.
SELECT * FROM landings WHERE run = :run ORDER BY sequence;

-- name: last_landing
-- Return the number of the latest landing of a run.
SELECT COALESCE(MAX(sequence), 0) AS value FROM landings WHERE run = :run;

-- name: oldest_landing_seen
-- Return the landing that made the oldest tip on which an open entry came.
SELECT MIN(COALESCE(l.sequence, 0)) AS value
FROM entries e LEFT JOIN landings l ON l.run = :run AND l.new = e.base
WHERE e.run = :run AND e.state IN ('queued', 'landing') AND e.base IS NOT NULL;

-- name: landings_from
-- List the landings of a run from a number on.
SELECT * FROM landings WHERE run = :run AND sequence >= :sequence ORDER BY sequence;

-- name: landed_tip
-- Return the commit to which the latest completed landing of a run moved trunk.
SELECT new FROM landings WHERE run = :run AND state = 'landed' ORDER BY sequence DESC LIMIT 1;

-- name: end_landing
-- Record that trunk has moved.
UPDATE landings SET state = 'landed' WHERE run = :run AND sequence = :sequence;

-- name: block_run
-- Set the reason why the gate of a run waits for a person; empty: it continues.
UPDATE runs SET blocked = :reason WHERE id = :run;

-- name: entry_of_task
-- Find the open entry that a task is part of.
SELECT e.* FROM tasks t JOIN entries e ON e.id = t.entry
WHERE t.id = :task AND e.state IN ('queued', 'landing');

-- name: set_untested
-- Whether the base of a run has to pass a check before an agent of the run starts.
UPDATE runs SET untested = :untested WHERE id = :run;

-- name: last_passed
-- When a check of a run last passed.
SELECT MAX(at) AS value FROM verdicts WHERE run = :run AND passed AND seconds > 0;

-- name: forgive_failures
-- Forget that the gate sent tasks of a run back since a moment: its checks did not work.
DELETE FROM failures WHERE kind = :kind AND at > :since
AND task IN (SELECT id FROM tasks WHERE run = :run);

-- name: check_seconds
-- The seconds of the latest checks of a repository's last runs.
SELECT v.seconds
FROM (SELECT id FROM runs WHERE repo = :repo ORDER BY submitted DESC, id LIMIT 20) r
CROSS JOIN verdicts v
WHERE v.run = r.id AND v.seconds > 0 AND v.check_id <> 'none'
ORDER BY v.at DESC, v.number DESC LIMIT :most;

-- name: check_spans
-- When the checks of a run ended, and how long each took.
SELECT at, seconds FROM verdicts WHERE run = :run AND seconds > 0 ORDER BY number;
