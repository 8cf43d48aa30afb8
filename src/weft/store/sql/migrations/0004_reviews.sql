-- `weft review`: candidates that a person decides on before they land, and comments on them.

CREATE TABLE reviews (
    entry TEXT PRIMARY KEY, -- the candidate
    run TEXT NOT NULL,
    task BIGINT NOT NULL, -- the task, or the story
    round BIGINT NOT NULL, -- counts the reviews of the task
    base TEXT NOT NULL, -- the tip of trunk that the candidate was merged on
    tree TEXT NOT NULL, -- of the merge: it passed its check, and is shown
    state TEXT NOT NULL CHECK (state IN ('open', 'accepted', 'sent_back', 'withdrawn')),
    opened DOUBLE PRECISION NOT NULL,
    decided DOUBLE PRECISION
);
CREATE UNIQUE INDEX reviews_round ON reviews (task, round);
CREATE UNIQUE INDEX reviews_open ON reviews (task) WHERE state = 'open';

-- Comments of an open review are drafts; a review that is sent back sends them.
CREATE TABLE review_comments (
    id BIGINT PRIMARY KEY,
    entry TEXT NOT NULL,
    path TEXT NOT NULL, -- '': the candidate as a whole
    side TEXT NOT NULL CHECK (side IN ('old', 'new')),
    line BIGINT NOT NULL, -- 0: the file as a whole
    quoted TEXT NOT NULL, -- the text of the line
    text TEXT NOT NULL,
    answer TEXT NOT NULL DEFAULT '' CHECK (answer IN ('', 'handled', 'answered')),
    reason TEXT NOT NULL DEFAULT '',
    at DOUBLE PRECISION NOT NULL
);
CREATE INDEX review_comments_entry ON review_comments (entry, id);
