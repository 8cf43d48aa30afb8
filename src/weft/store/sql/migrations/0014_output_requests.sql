-- Output of attempts on worker hosts: readers ask for a part, the host answers at its next look.

CREATE TABLE output_requests (
    id TEXT PRIMARY KEY,
    host TEXT NOT NULL, -- the host that has the output
    task BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    stream TEXT NOT NULL, -- stdout or stderr
    start BIGINT NOT NULL, -- offset of the first byte that is asked for
    ended BOOLEAN NOT NULL, -- the attempt has ended: its last line may lack a newline
    asked DOUBLE PRECISION NOT NULL,
    piece TEXT -- the answer as JSON; NULL: not answered yet
);
