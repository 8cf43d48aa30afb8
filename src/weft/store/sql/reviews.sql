-- Reviews by a person, and their comments.

-- name: add_review
-- Open the next review of a task.
INSERT INTO reviews (entry, run, task, round, base, tree, state, opened, decided)
SELECT :entry, :run, :task, COALESCE(MAX(round), 0) + 1, :base, :tree, 'open', :now, NULL
FROM reviews WHERE task = :task;

-- name: review
-- Read the review of a candidate.
SELECT * FROM reviews WHERE entry = :entry;

-- name: open_reviews
-- List the open reviews, the longest waiting first, with their tasks.
SELECT v.*, t.name, t.tenant, t.text, t.request FROM reviews v JOIN tasks t ON t.id = v.task
WHERE v.state = 'open' ORDER BY v.opened, v.task;

-- name: reviews_of_task
-- List the reviews of a task in order.
SELECT * FROM reviews WHERE task = :task ORDER BY round;

-- name: end_review
-- Record the decision on an open review.
UPDATE reviews SET state = :state, decided = :now WHERE entry = :entry AND state = 'open';

-- name: queue_again
-- Put an accepted entry at the end of the gate's queue.
UPDATE entries SET state = 'queued', looked_at = FALSE, base = NULL,
       number = (SELECT MAX(number) + 1 FROM entries)
WHERE id = :id AND state = 'passed_on';

-- name: set_reason
-- Set the reason of a task's state.
UPDATE tasks SET reason = :reason, since = :now WHERE id = :id;

-- name: add_comment
-- Add a comment on a candidate.
INSERT INTO review_comments (id, entry, path, side, line, last, quoted, text, at)
SELECT COALESCE(MAX(id), 0) + 1, :entry, :path, :side, :line, :last, :quoted, :text, :at
FROM review_comments;

-- name: comments
-- List the comments on a candidate in order.
SELECT id, entry, path, side, line, last, quoted, text, answer, reason FROM review_comments
WHERE entry = :entry ORDER BY id;

-- name: drop_comments
-- Delete the comments on a candidate.
DELETE FROM review_comments WHERE entry = :entry;

-- name: drop_comment
-- Delete a comment on a candidate.
DELETE FROM review_comments WHERE entry = :entry AND id = :id;

-- name: answer_comment
-- Record the agent's answer to a comment.
UPDATE review_comments SET answer = :answer, reason = :reason WHERE entry = :entry AND id = :id;
