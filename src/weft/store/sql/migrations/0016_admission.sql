-- Admission without lines and heads: a ready task has the key of its bucket, and `aside` if it is
-- known to wait for the files or the turn of another task.
CREATE TABLE tasks_in_buckets (
    id BIGINT PRIMARY KEY,
    run TEXT,
    name TEXT NOT NULL,
    repo TEXT NOT NULL,
    tenant TEXT NOT NULL,
    text TEXT NOT NULL,
    request TEXT NOT NULL DEFAULT '{}', -- a TaskRequest as JSON
    attached TEXT NOT NULL DEFAULT '{}', -- the sender's own JSON
    state TEXT NOT NULL CHECK (state IN ('waiting', 'ready', 'offered', 'running', 'parked',
        'paused', 'blocked', 'gating', 'done', 'failed', 'cancelled', 'skipped', 'evicted')),
    since DOUBLE PRECISION NOT NULL,
    reason TEXT NOT NULL DEFAULT '',
    until DOUBLE PRECISION,
    class BIGINT NOT NULL,
    priority BIGINT NOT NULL,
    agent TEXT,
    stage TEXT,
    demand TEXT NOT NULL,
    files TEXT NOT NULL,
    path_seconds DOUBLE PRECISION NOT NULL,
    submitted DOUBLE PRECISION NOT NULL,
    story BIGINT,
    gang TEXT,
    pinned TEXT,
    pin_until DOUBLE PRECISION, -- a pin that is but a preference: it ends then, if still ready
    offered_to TEXT,
    created_by TEXT, -- the member, token or task that sent it
    result TEXT NOT NULL DEFAULT '',
    attempt BIGINT NOT NULL DEFAULT 0, -- the number of the latest one
    entry TEXT, -- what it asked to land with, the latest time
    bucket TEXT COLLATE "C", -- equal for ready tasks that ask for the same with equal urgency
    aside BIGINT, -- the task whose files or turn it waits for: not examined before that task lets go
    CHECK ((state = 'ready') = (bucket IS NOT NULL)),
    CHECK (aside IS NULL OR state = 'ready')
);
INSERT INTO tasks_in_buckets (id, run, name, repo, tenant, text, request, attached, state, since, reason,
    until, class, priority, agent, stage, demand, files, path_seconds, submitted, story, gang, pinned,
    pin_until, offered_to, created_by, result, attempt, entry, bucket)
SELECT t.id, t.run, t.name, t.repo, t.tenant, t.text, t.request, t.attached, t.state, t.since, t.reason,
    t.until, t.class, t.priority, t.agent, t.stage, t.demand, t.files, t.path_seconds, t.submitted, t.story,
    t.gang, t.pinned, t.pin_until, t.offered_to, t.created_by, t.result, t.attempt, t.entry, b.key
FROM tasks t LEFT JOIN buckets b ON b.id = t.bucket;
DROP TABLE tasks;
ALTER TABLE tasks_in_buckets RENAME TO tasks;
CREATE UNIQUE INDEX tasks_name ON tasks (run, name) WHERE run IS NOT NULL;
CREATE INDEX tasks_free ON tasks (bucket, path_seconds DESC, submitted, id)
    WHERE state = 'ready' AND aside IS NULL;
CREATE INDEX tasks_aside ON tasks (bucket, path_seconds DESC, submitted, id) WHERE aside IS NOT NULL;
CREATE INDEX tasks_behind ON tasks (aside) WHERE aside IS NOT NULL;
CREATE INDEX tasks_state ON tasks (state, id) WHERE state NOT IN ('ready', 'running');
CREATE INDEX tasks_until ON tasks (until) WHERE until IS NOT NULL;
CREATE INDEX tasks_queue ON tasks (id) WHERE run IS NULL AND state IN ('waiting', 'ready', 'offered');
CREATE INDEX tasks_waiting ON tasks (run) WHERE state = 'waiting';
CREATE INDEX tasks_gang ON tasks (gang) WHERE gang IS NOT NULL;
CREATE INDEX tasks_story ON tasks (story) WHERE story IS NOT NULL;
CREATE INDEX tasks_pinned ON tasks (pinned, state) WHERE pinned IS NOT NULL;
CREATE INDEX tasks_preferring ON tasks (pin_until) WHERE pin_until IS NOT NULL AND state = 'ready';
CREATE INDEX tasks_leads ON tasks (repo, agent, id) WHERE stage = 'lead' AND run IS NULL;
CREATE INDEX tasks_created ON tasks (created_by, id) WHERE created_by IS NOT NULL;

-- The files that the ready tasks of runs ask for: the paths they name, and the directories of their
-- globs, from `/` on ('' is the root). An admission looks here for an earlier task of the run.
CREATE TABLE ready_files (
    run TEXT NOT NULL,
    urgency TEXT NOT NULL, -- class and priority: `1/2`
    path TEXT COLLATE "C" NOT NULL,
    task BIGINT NOT NULL,
    PRIMARY KEY (run, urgency, path, task)
);
INSERT INTO ready_files (run, urgency, path, task)
SELECT b.run, CAST(b.class AS TEXT) || '/' || CAST(b.priority AS TEXT), w.place, w.task
FROM wants w JOIN buckets b ON b.id = w.bucket;
DROP TABLE wants;
DROP TABLE buckets;
