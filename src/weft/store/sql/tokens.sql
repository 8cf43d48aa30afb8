-- Tokens, and replies to requests that may be sent again.

-- name: add_token
-- Add a token.
INSERT INTO tokens (id, hash, name, scopes, tenant, fence, agents, created, expires, uses, worker)
VALUES (:id, :hash, :name, :scopes, :tenant, :fence, :agents, :created, :expires, :uses, :worker);

-- name: token
-- Read a token, with the lease of the attempt it was made for.
SELECT t.*, l.task AS lease_task, l.state AS lease_state
FROM tokens t LEFT JOIN leases l ON l.fence = t.fence WHERE t.id = :id;

-- name: tokens
-- List all tokens but those made for attempts, oldest first.
SELECT t.*, NULL AS lease_task, NULL AS lease_state
FROM tokens t WHERE t.fence IS NULL ORDER BY t.created, t.id;

-- name: tokens_called
-- List the tokens with an id, a name or a host, oldest first.
SELECT t.*, NULL AS lease_task, NULL AS lease_state FROM tokens t
WHERE t.fence IS NULL AND (t.id = :word OR t.name = :word OR t.worker = :word)
ORDER BY t.created, t.id;

-- name: tokens_after
-- List a page of tokens in the same order, after a token or from the first.
SELECT t.*, NULL AS lease_task, NULL AS lease_state FROM tokens t
WHERE t.fence IS NULL
  AND (CAST(:after AS TEXT) IS NULL
       OR (t.created, t.id) > (SELECT b.created, b.id FROM tokens b WHERE b.id = :after))
ORDER BY t.created, t.id LIMIT :most;

-- name: revoke_token
-- Revoke a token.
UPDATE tokens SET revoked = :now WHERE id = :id AND revoked IS NULL;

-- name: use_token
-- Count a host that joins with a token, unless the token has no uses left.
UPDATE tokens SET uses = uses - 1 WHERE id = :id AND uses > 0;

-- name: let_other_tokens_expire
-- Let the tokens of a host end soon, but for the token that it has kept.
UPDATE tokens SET expires = :expires
WHERE worker = :worker AND id <> :id AND (expires IS NULL OR expires > :expires);

-- name: revoke_tokens_of_host
-- Revoke all tokens of a host.
UPDATE tokens SET revoked = :now WHERE worker = :worker AND revoked IS NULL;

-- name: hand_over_tokens
-- Pass the tokens of an attempt to its new fence.
UPDATE tokens SET fence = :fence WHERE fence = :old;

-- name: reply
-- Find the reply to a request with this key.
SELECT request, status, body, at FROM replies WHERE token = :token AND key = :key;

-- name: keep_reply
-- Reserve a request with this key, or keep its reply.
INSERT INTO replies (token, key, request, status, body, at)
VALUES (:token, :key, :request, :status, :body, :now)
ON CONFLICT (token, key) DO UPDATE SET request = excluded.request, status = excluded.status,
    body = excluded.body, at = excluded.at;

-- name: drop_reply
-- Delete the reservation of a request without a reply: it may be tried again.
DELETE FROM replies WHERE token = :token AND key = :key;

-- name: forget_replies
-- Delete the replies that are too old to be asked for.
DELETE FROM replies WHERE at < :before;

-- name: add_page_code
-- Add a one-use code for the page.
INSERT INTO page_codes (hash, scopes, expires) VALUES (:hash, :scopes, :expires);

-- name: page_code
-- Find a code by its digest.
SELECT scopes, expires FROM page_codes WHERE hash = :hash;

-- name: use_page_code
-- Delete a code that is used.
DELETE FROM page_codes WHERE hash = :hash;

-- name: forget_page_codes
-- Delete the codes that are too old to be used.
DELETE FROM page_codes WHERE expires < :now;
