-- Repositories by id.

-- name: repository
-- A repository by its id.
SELECT * FROM repositories WHERE id = :id;

-- name: repository_at
-- The repository that was last recorded at a place.
SELECT * FROM repositories WHERE host = :host AND path = :path AND inode = :inode
ORDER BY at DESC, id LIMIT 1;

-- name: record_repository
-- Record a repository or its new place.
INSERT INTO repositories (id, host, path, inode, root, at)
VALUES (:id, :host, :path, :inode, :root, :at)
ON CONFLICT (id) DO UPDATE SET host = excluded.host, path = excluded.path,
    inode = excluded.inode, root = excluded.root, at = excluded.at;

-- name: move_repository
-- Record the new place of a repository whose store lies in it.
UPDATE repositories SET path = :path, inode = :inode WHERE path = :old;

-- name: move_runs
-- Record the new name of the repository of these runs.
UPDATE runs SET repo = :new WHERE repo = :old;

-- name: move_tasks
-- Record the new name of the repository of these tasks.
UPDATE tasks SET repo = :new WHERE repo = :old;

-- name: move_claims
-- Record the new name of the repository of these claims.
UPDATE claims SET repo = :new WHERE repo = :old;

-- name: move_branch_landings
-- Record the new name of the repository of these moves of branches.
UPDATE branch_landings SET repo = :new WHERE repo = :old;
