-- `weft page`: one-use codes in links to the page of a server.

CREATE TABLE page_codes (
    hash TEXT PRIMARY KEY, -- digest of the code
    scopes TEXT NOT NULL, -- of the token that the code becomes
    expires DOUBLE PRECISION NOT NULL
);
