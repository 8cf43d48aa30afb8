-- The first schema. Written for PostgreSQL and SQLite alike; `weft.store.sql` makes the three
-- replacements SQLite wants (how keys are stored, and the collation).
-- Times are seconds since the epoch, given by the caller. Identifiers are handed out by the
-- one writer there is at any time, so they grow in commit order.

-- The row every writing transaction writes first on PostgreSQL, which makes writers take turns.
CREATE TABLE store (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    identity TEXT NOT NULL,
    place TEXT NOT NULL DEFAULT '', -- inode and path of the directory of a store in a file
    tuning TEXT NOT NULL DEFAULT '{}', -- the times that workers present have agreed on
    drained DOUBLE PRECISION, -- since when nothing is admitted any more; NULL: all goes on
    writes BIGINT NOT NULL DEFAULT 0
);
INSERT INTO store (one, identity) VALUES (1, '');

CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    repo TEXT NOT NULL,
    tenant TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'running', 'ended')),
    submitted DOUBLE PRECISION NOT NULL,
    plan TEXT NOT NULL,
    base TEXT NOT NULL,
    revision BIGINT NOT NULL DEFAULT 1, -- the number of its settings in force
    blocked TEXT NOT NULL DEFAULT '', -- why its gate waits for a person
    target TEXT NOT NULL DEFAULT '', -- a branch that moves to what landed, once everything has
    target_state TEXT NOT NULL DEFAULT 'open' CHECK (target_state IN
        ('open', 'moved', 'left', 'refused')),
    target_text TEXT NOT NULL DEFAULT '', -- what came of it
    alternates TEXT NOT NULL DEFAULT '[]' -- object stores that the repository borrowed from then
);
-- The settings a run was submitted with, and each later version. Rows are never changed.
CREATE TABLE run_settings (
    run TEXT NOT NULL,
    revision BIGINT NOT NULL,
    gate TEXT NOT NULL, -- [gate] of weft.toml, as JSON
    workspace TEXT NOT NULL, -- [workspace] of weft.toml, as JSON
    agents TEXT NOT NULL, -- the text of each agent file by name, as a JSON object
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (run, revision)
);
CREATE INDEX runs_running ON runs (id) WHERE state = 'running';
CREATE INDEX runs_waiting ON runs (submitted, id) WHERE state = 'waiting';

-- Ready tasks that compete as one: same origin, urgency and demand. Only the best task of a
-- bucket has to be looked at, and one look at the limits decides for all of them.
CREATE TABLE buckets (
    id BIGINT PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    repo TEXT NOT NULL,
    run TEXT,
    tenant TEXT NOT NULL,
    class BIGINT NOT NULL,
    priority BIGINT NOT NULL,
    demand TEXT NOT NULL,
    agent TEXT,
    pinned TEXT,
    gang TEXT
);

CREATE TABLE tasks (
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
    -- The ready index. A line is the ready tasks of a bucket that share one pattern and so
    -- exclude each other; only its head is looked at, the others follow in plan order. `aside`
    -- names the task whose claim a head ran into, or the ready task of its bucket that the plan
    -- puts before it: the head is not looked at again before that one lets go.
    bucket BIGINT,
    line TEXT,
    head BOOLEAN NOT NULL DEFAULT FALSE,
    aside BIGINT,
    CHECK (NOT head OR state = 'ready')
);
CREATE UNIQUE INDEX tasks_name ON tasks (run, name) WHERE run IS NOT NULL;
CREATE INDEX tasks_visible ON tasks (bucket, path_seconds DESC, submitted, id)
    WHERE head AND aside IS NULL;
CREATE INDEX tasks_aside ON tasks (bucket, path_seconds DESC, submitted, id)
    WHERE head AND aside IS NOT NULL;
CREATE UNIQUE INDEX tasks_head ON tasks (bucket, line) WHERE head;
CREATE INDEX tasks_behind ON tasks (aside) WHERE aside IS NOT NULL;
CREATE INDEX tasks_line ON tasks (bucket, line, submitted, id)
    WHERE state = 'ready' AND NOT head;
-- Not of tasks that are ready or run: an admission would write two more pages. Those are found by
-- the ready index and by their leases.
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

CREATE TABLE edges (
    task BIGINT NOT NULL,
    needs BIGINT NOT NULL,
    PRIMARY KEY (task, needs)
);
CREATE INDEX edges_needs ON edges (needs, task);

CREATE TABLE attempts (
    task BIGINT NOT NULL,
    number BIGINT NOT NULL,
    fence BIGINT NOT NULL,
    worker TEXT NOT NULL,
    agent TEXT,
    stage TEXT,
    started DOUBLE PRECISION NOT NULL,
    ended DOUBLE PRECISION,
    outcome TEXT,
    led_to TEXT, -- the state its outcome gave the task
    candidate TEXT, -- the commit it left on its branch: all it did, finished or not
    base TEXT, -- the commit that is made on
    session TEXT, -- by which its program can be resumed
    tokens BIGINT NOT NULL DEFAULT 0,
    micro_usd BIGINT NOT NULL DEFAULT 0,
    answer TEXT NOT NULL DEFAULT '', -- its result, or why it failed; the first stands
    PRIMARY KEY (task, number)
);

CREATE TABLE leases (
    fence BIGINT PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('attempt', 'run', 'gate', 'check', 'projection')),
    holder TEXT NOT NULL,
    task BIGINT,
    attempt BIGINT,
    worker TEXT,
    host TEXT,
    state TEXT NOT NULL CHECK (state IN ('held', 'suspect', 'released')),
    granted DOUBLE PRECISION NOT NULL,
    deadline DOUBLE PRECISION,
    released DOUBLE PRECISION,
    ended TEXT,
    -- The tenant whose turn this lease was; NULL for what is not an admission of its own
    -- (adoptions, all but the first of a gang, leases that are not attempts).
    turn TEXT,
    CHECK ((state = 'released') = (released IS NOT NULL))
);
-- The open leases; and at most one of them for each task.
CREATE UNIQUE INDEX leases_open ON leases (task) WHERE state <> 'released';
CREATE UNIQUE INDEX leases_gate ON leases (holder) WHERE kind = 'gate' AND state <> 'released';
CREATE UNIQUE INDEX leases_projection ON leases (holder)
    WHERE kind = 'projection' AND state <> 'released';

CREATE TABLE lease_costs (
    fence BIGINT NOT NULL,
    resource TEXT NOT NULL,
    amount BIGINT NOT NULL CHECK (amount > 0),
    PRIMARY KEY (fence, resource)
);

-- Numbered units (ports) of open leases. A number is never handed out twice at once.
CREATE TABLE lease_units (
    resource TEXT NOT NULL,
    unit BIGINT NOT NULL,
    fence BIGINT NOT NULL,
    PRIMARY KEY (resource, unit)
);
CREATE INDEX lease_units_fence ON lease_units (fence);

-- What ended leases really used of a consumable. Rows are only ever added, by the one writer, and
-- each carries the total of its resource up to itself: what is spent is read off the last one.
CREATE TABLE spending (
    resource TEXT NOT NULL,
    number BIGINT NOT NULL,
    fence BIGINT NOT NULL,
    amount BIGINT NOT NULL CHECK (amount >= 0),
    total BIGINT NOT NULL,
    PRIMARY KEY (resource, number)
);
CREATE UNIQUE INDEX spending_once ON spending (resource, fence);

-- Where the ready tasks of runs want files: the paths they name, and the directories of their
-- globs, from `/` on ('' is the root). A later task of the run looks here for an earlier one.
CREATE TABLE wants (
    bucket BIGINT NOT NULL,
    place TEXT COLLATE "C" NOT NULL,
    task BIGINT NOT NULL,
    PRIMARY KEY (bucket, place, task)
);

-- The files a task holds, from its first admission until it lands or is given up.
CREATE TABLE claims (
    repo TEXT NOT NULL,
    task BIGINT NOT NULL,
    pattern TEXT NOT NULL,
    PRIMARY KEY (repo, task, pattern)
);

CREATE TABLE limits (
    resource TEXT PRIMARY KEY,
    capacity BIGINT NOT NULL CHECK (capacity >= 0),
    owner TEXT
);

CREATE TABLE penalties (
    provider TEXT PRIMARY KEY,
    level BIGINT NOT NULL,
    since DOUBLE PRECISION NOT NULL,
    successes BIGINT NOT NULL
);

-- Agents nobody should start before a person has looked: not logged in, not installed.
CREATE TABLE stopped_agents (
    agent TEXT PRIMARY KEY,
    reason TEXT NOT NULL,
    since DOUBLE PRECISION NOT NULL
);

CREATE TABLE workers (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('process', 'api')),
    host TEXT NOT NULL,
    boot TEXT NOT NULL,
    pid BIGINT,
    pid_start DOUBLE PRECISION,
    agents TEXT, -- those it can run, or a member's capabilities, as the keys of a JSON object
    repos TEXT, -- the repositories it can work on, as the keys of a JSON object; NULL: any
    heartbeat BIGINT NOT NULL,
    seen DOUBLE PRECISION NOT NULL,
    departed DOUBLE PRECISION,
    -- Of members of the swarm, which joined with a token; NULL or nothing for processes.
    token TEXT,
    tenant TEXT, -- whose tasks it takes; NULL: anybody's
    role TEXT NOT NULL DEFAULT '',
    is_lead BOOLEAN NOT NULL DEFAULT FALSE,
    noticed BIGINT NOT NULL DEFAULT 0 -- the last event it knows of, or need not know of
);
CREATE INDEX workers_present ON workers (id) WHERE departed IS NULL;
CREATE INDEX workers_token ON workers (token, name) WHERE token IS NOT NULL;
CREATE INDEX workers_own ON workers (token, name, id) WHERE departed IS NULL;

-- The first task in order that is held up, and since which fence; at most one row.
CREATE TABLE reservation (
    one BIGINT PRIMARY KEY CHECK (one = 1),
    task BIGINT NOT NULL,
    since BIGINT NOT NULL,
    reserved BOOLEAN NOT NULL
);

CREATE TABLE events (
    id BIGINT PRIMARY KEY,
    at DOUBLE PRECISION NOT NULL,
    kind TEXT NOT NULL,
    run TEXT,
    task BIGINT,
    data TEXT NOT NULL
);
-- Admissions are left out: the attempts tell of them, and each one would write this tree too.
CREATE INDEX events_task ON events (task, id)
    WHERE task IS NOT NULL AND kind <> 'task_admitted';
-- Those that may be the end of a task: what members are told of.
CREATE INDEX events_ends ON events (id) WHERE kind IN ('attempt_finished', 'task_landed',
    'task_approved', 'task_cancelled', 'task_skipped', 'task_evicted');

-- Words to a task or to a member, kept until whoever they are for has confirmed them.
CREATE TABLE messages (
    id BIGINT PRIMARY KEY,
    to_task BIGINT,
    to_worker TEXT,
    sender TEXT NOT NULL,
    text TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    delivered DOUBLE PRECISION,
    CHECK ((to_task IS NULL) <> (to_worker IS NULL))
);
CREATE INDEX messages_task ON messages (to_task, id) WHERE delivered IS NULL AND to_task IS NOT NULL;
CREATE INDEX messages_worker ON messages (to_worker, id)
    WHERE delivered IS NULL AND to_worker IS NOT NULL;

CREATE TABLE failures (
    task BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    kind TEXT NOT NULL,
    signature TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (task, attempt)
);

CREATE TABLE durations (
    task BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    agent TEXT NOT NULL,
    stage TEXT NOT NULL,
    size BIGINT NOT NULL,
    seconds DOUBLE PRECISION NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (task, attempt)
);
CREATE INDEX durations_alike ON durations (agent, stage, at);

-- What asks to land: the work of a task, or of a whole story. Built again it is a new entry.
CREATE TABLE entries (
    id TEXT PRIMARY KEY,
    number BIGINT NOT NULL UNIQUE, -- the order of arrival
    run TEXT NOT NULL,
    story BIGINT, -- whose subtasks these are, all of them
    state TEXT NOT NULL CHECK (state IN ('queued', 'landing', 'landed', 'rejected', 'withdrawn',
        'passed_on')),
    looked_at BOOLEAN NOT NULL, -- whether it goes to review or judge once it passes its checks
    base TEXT, -- the tip of trunk when the gate first saw it
    tasks TEXT NOT NULL, -- numbers, as the keys of a JSON object
    work TEXT NOT NULL, -- commits with what each is made on, as a JSON list of pairs
    needs TEXT NOT NULL, -- entries it builds on, as the keys of a JSON object
    alone BOOLEAN NOT NULL, -- in no batch with others: it was sent back before
    at DOUBLE PRECISION NOT NULL
);
CREATE INDEX entries_open ON entries (run, number) WHERE state IN ('queued', 'landing');
CREATE INDEX entries_run ON entries (run, number);

-- How one run of the checks on the tree of a combination ended.
CREATE TABLE verdicts (
    run TEXT NOT NULL,
    number BIGINT NOT NULL,
    base TEXT NOT NULL,
    combination TEXT NOT NULL, -- entries in the order they were merged, as a JSON list
    purpose TEXT NOT NULL,
    tree TEXT NOT NULL,
    check_id TEXT NOT NULL, -- commands and environment
    commands TEXT NOT NULL, -- the command lines that were run, as a JSON list of lists
    passed BOOLEAN NOT NULL,
    seconds DOUBLE PRECISION NOT NULL, -- 0 where another run's verdict on that tree was taken over
    output TEXT NOT NULL, -- the end of what it printed
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (run, number)
);
CREATE INDEX verdicts_tree ON verdicts (tree, check_id);
CREATE INDEX verdicts_base ON verdicts (run, base);

-- Entries that do not merge once the others are merged.
CREATE TABLE conflicts (
    run TEXT NOT NULL,
    base TEXT NOT NULL,
    entry TEXT NOT NULL,
    others TEXT NOT NULL, -- entries, as a JSON list
    report TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (run, base, entry, others)
);

-- Trunk moves from old to new. Written before it moves; at most one of a run is open.
CREATE TABLE landings (
    run TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    old TEXT NOT NULL,
    new TEXT NOT NULL,
    tree TEXT NOT NULL,
    entries TEXT NOT NULL, -- in the order they land, as a JSON list
    commits TEXT NOT NULL, -- the commit of each, as a JSON list
    revision BIGINT NOT NULL, -- of the run's settings, by which it was checked
    every_commit BOOLEAN NOT NULL, -- not only the last of its commits must have passed
    state TEXT NOT NULL CHECK (state IN ('intended', 'landed')),
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (run, sequence)
);
CREATE INDEX landings_new ON landings (run, new);
CREATE UNIQUE INDEX landings_open ON landings (run) WHERE state = 'intended';

-- The projections of a run: a plan file, an issue tracker, notifications and the branch of --into
-- follow its events. A worker that holds the lease `<run>/<name>` carries one of them out.
CREATE TABLE projections (
    run TEXT NOT NULL,
    name TEXT NOT NULL CHECK (name IN
        ('plan_marks', 'issue_tracker', 'notifications', 'target_branch')),
    host TEXT NOT NULL DEFAULT '', -- the host of the plan file; '': any host with the repository
    path TEXT NOT NULL DEFAULT '', -- of the plan file
    open BOOLEAN NOT NULL DEFAULT TRUE, -- FALSE once the end of the run is handled or given up
    handled BIGINT NOT NULL, -- the number of the last event handled
    memory TEXT NOT NULL DEFAULT '[]', -- texts that the projection needs to resume, as JSON
    tries BIGINT NOT NULL DEFAULT 0, -- failures since the last success
    failure TEXT NOT NULL DEFAULT '', -- the last of them
    skipped TEXT NOT NULL DEFAULT '{}', -- reasons of hosts that cannot carry it out, as JSON
    PRIMARY KEY (run, name)
);
CREATE INDEX projections_open ON projections (run, name) WHERE open;

-- Who may ask something of a server. Of a token only a digest of its secret is kept.
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    scopes TEXT NOT NULL, -- words with spaces between them
    tenant TEXT, -- the only one whose tasks it may see and touch; NULL: all
    fence BIGINT, -- the attempt it was made for, and ends with; NULL: none
    agents TEXT, -- those it sends work to, words with spaces between them; '': open ones; '*': all;
                 -- NULL: made before tokens named agents, and sends to all as it did
    created DOUBLE PRECISION NOT NULL,
    expires DOUBLE PRECISION,
    revoked DOUBLE PRECISION
);
CREATE INDEX tokens_fence ON tokens (fence) WHERE fence IS NOT NULL;

-- What was answered to a request that may be sent again, by who sent it and the key it chose.
CREATE TABLE replies (
    token TEXT NOT NULL,
    key TEXT NOT NULL,
    request TEXT NOT NULL, -- a digest of method, path and body
    status BIGINT, -- NULL while it is being answered
    body TEXT NOT NULL DEFAULT '',
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (token, key)
);
CREATE INDEX replies_at ON replies (at);
