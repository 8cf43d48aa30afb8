-- Repositories have ids. Rows that name a repository by its path get the id when a process next
-- opens that repository.

CREATE TABLE repositories (
    id TEXT PRIMARY KEY,
    host TEXT NOT NULL, -- the host that has it on disk
    path TEXT NOT NULL, -- of its common git directory
    inode BIGINT NOT NULL, -- of that directory
    root TEXT NOT NULL, -- a root commit; '': it had no commit
    at DOUBLE PRECISION NOT NULL
);
CREATE INDEX repositories_place ON repositories (host, path);
