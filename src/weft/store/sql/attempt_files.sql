-- The files of attempts, from which predictions learn.

-- name: add_attempt_files
-- Keep the files of an attempt that has ended.
INSERT INTO attempt_files (task, attempt, repo, at, predicted, declared, asked, changed)
VALUES (:task, :attempt, :repo, :at, :predicted, :declared, :asked, :changed);

-- name: attempt_files
-- List the files of the latest attempts at a repository.
SELECT * FROM attempt_files WHERE repo = :repo ORDER BY at DESC, task DESC, attempt DESC
LIMIT :most;

-- name: attempt_seconds
-- The mean seconds of attempts at a repository that changed files, and of those of them that were
-- sent back because other tasks held files that they changed.
SELECT AVG(a.ended - a.started) AS usual,
       AVG(CASE WHEN a.outcome = 'scope' THEN a.ended - a.started END) AS redone
FROM attempt_files f JOIN attempts a ON a.task = f.task AND a.number = f.attempt
WHERE f.repo = :repo AND f.at >= :since AND f.changed <> '[]' AND a.ended IS NOT NULL;
