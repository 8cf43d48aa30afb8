-- Requests for the output of attempts on worker hosts.

-- name: add_output_request
-- Ask a host for a part of an attempt's output.
INSERT INTO output_requests (id, host, task, attempt, stream, start, ended, asked)
VALUES (:id, :host, :task, :attempt, :stream, :start, :ended, :asked);

-- name: forget_output_requests
-- Delete the requests, answered or not, that were made before a time.
DELETE FROM output_requests WHERE asked < :before;

-- name: output_request_count
-- Count the requests.
SELECT COUNT(*) AS value FROM output_requests;

-- name: open_output_requests
-- List the unanswered requests to a host, oldest first.
SELECT * FROM output_requests WHERE host = :host AND piece IS NULL ORDER BY asked, id LIMIT 20;

-- name: output_request
-- Read a request.
SELECT * FROM output_requests WHERE id = :id;

-- name: answer_output_request
-- Store the answer to a request; the first answer counts.
UPDATE output_requests SET piece = :piece WHERE id = :id AND piece IS NULL;
