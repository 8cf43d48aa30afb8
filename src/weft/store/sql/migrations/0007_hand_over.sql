-- Hand-overs of tasks between agents, and tasks that sleep until an event.

CREATE TABLE hops (
    task BIGINT NOT NULL,
    number BIGINT NOT NULL, -- from 1
    attempt BIGINT NOT NULL, -- ended with it
    giver TEXT NOT NULL,
    agent TEXT NOT NULL, -- the next agent
    note TEXT NOT NULL,
    args TEXT NOT NULL, -- as a JSON object
    tree TEXT NOT NULL, -- the work at that moment
    candidate TEXT, -- the commit of the work so far; NULL: no agent has changed a file
    base TEXT, -- the commit the candidate is made on
    counts BOOLEAN NOT NULL DEFAULT TRUE, -- FALSE: a person has reopened the task since
    at DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (task, number)
);

-- A parked task that an event wakes before its time.
CREATE TABLE sleeps (
    task BIGINT PRIMARY KEY,
    kind TEXT NOT NULL CHECK (kind IN ('trunk_moved', 'task_ended')),
    subject TEXT NOT NULL -- the run, or the number of the task
);
CREATE INDEX sleeps_subject ON sleeps (kind, subject);
