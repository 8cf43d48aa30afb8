-- Members of the swarm, the tasks they hold, messages and notices.

-- name: join_swarm
-- Add a member, or bring it back. The notices it has confirmed stay confirmed.
INSERT INTO workers (id, name, kind, host, boot, agents, heartbeat, seen, token, role, is_lead,
                     noticed)
VALUES (:id, :name, 'api', '', '', :agents, 1, :now, :token, :role, :is_lead, :noticed)
ON CONFLICT (id) DO UPDATE SET name = excluded.name, agents = excluded.agents,
    token = excluded.token, role = excluded.role,
    is_lead = excluded.is_lead, heartbeat = workers.heartbeat + 1, seen = excluded.seen,
    departed = NULL;

-- name: member_named
-- Find the member of a token with this name, even if it has left.
SELECT id FROM workers WHERE token = :token AND name = :name ORDER BY departed IS NOT NULL, id;

-- name: members_of
-- List the present members of a token.
SELECT id FROM workers WHERE token = :token AND departed IS NULL ORDER BY id;

-- name: some_of_token
-- List up to two present members of a token: enough to see if there is exactly one.
SELECT id FROM workers WHERE token = :token AND departed IS NULL ORDER BY name, id LIMIT 2;

-- name: own_members_named
-- List the present members of a token with this id or this name, the id first.
SELECT id FROM (
    SELECT id, 0 AS place FROM workers
    WHERE id = :named AND token = :token AND departed IS NULL
    UNION ALL
    SELECT id, 1 FROM workers
    WHERE token = :token AND name = :named AND id <> :named AND departed IS NULL) own
ORDER BY place, id LIMIT 2;

-- name: members_called
-- List the present members with this id or this name.
SELECT id FROM workers
WHERE departed IS NULL AND token IS NOT NULL AND (id = :name OR name = :name) ORDER BY id;

-- name: renew_of
-- Renew the leases of members that gave a sign of life.
UPDATE leases SET state = 'held', deadline = :deadline
WHERE state <> 'released' AND kind = 'attempt'
  AND worker IN (SELECT key FROM json_each(:workers));

-- name: held_by_members
-- List the tasks that members hold; :worker is a member, or NULL for all.
SELECT l.worker, l.fence, l.task, l.attempt, l.deadline, t.name, a.ended
FROM leases l CROSS JOIN workers w CROSS JOIN tasks t CROSS JOIN attempts a
WHERE l.state <> 'released' AND l.kind = 'attempt' AND w.id = l.worker AND w.token IS NOT NULL
  AND t.id = l.task AND a.task = l.task AND a.number = l.attempt
  AND (CAST(:worker AS TEXT) IS NULL OR l.worker = :worker)
ORDER BY +l.fence;

-- name: offers_of
-- List the offers that members have not answered; :worker is a member, or NULL for all.
SELECT id, offered_to FROM tasks
WHERE until IS NOT NULL AND state = 'offered'
  AND (CAST(:worker AS TEXT) IS NULL OR offered_to = :worker)
ORDER BY +id;

-- name: set_noticed
-- Record the last event that a member knows.
UPDATE workers SET noticed = :event WHERE id = :worker AND noticed < :event;

-- name: noticed
-- Return the last event that a member knows.
SELECT noticed AS value FROM workers WHERE id = :worker;

-- name: ends_since
-- List the events that may end a task which a member sent, or, for a lead, any task;
-- tasks that it worked on itself are left out.
SELECT e.id, e.at, e.kind, e.data, t.id AS task, t.name, t.reason, t.result
FROM events e CROSS JOIN tasks t
WHERE e.id > :after AND e.kind IN ('attempt_finished', 'task_landed', 'task_approved',
    'task_cancelled', 'task_skipped', 'task_evicted')
  AND t.id = e.task
  AND (t.created_by = :sender OR :lead)
  AND NOT EXISTS (
      SELECT 1 FROM attempts a
      WHERE a.task = t.id AND a.number = t.attempt AND a.worker = :worker)
ORDER BY e.id LIMIT :most;

-- name: add_message
-- Add a message to a task or a member, with the next number.
INSERT INTO messages (id, to_task, to_worker, sender, text, at)
SELECT COALESCE(MAX(id), 0) + 1, CAST(:to_task AS BIGINT), CAST(:to_worker AS TEXT),
       CAST(:sender AS TEXT), CAST(:text AS TEXT), CAST(:now AS DOUBLE PRECISION)
FROM messages;

-- name: last_message
-- Return the number of the newest message.
SELECT COALESCE(MAX(id), 0) AS value FROM messages;

-- name: messages_to_task
-- List the messages that a task has not confirmed.
SELECT * FROM messages
WHERE delivered IS NULL AND to_task IS NOT NULL AND to_task = :to ORDER BY id LIMIT :most;

-- name: messages_to_worker
-- List the messages that a member has not confirmed.
SELECT * FROM messages
WHERE delivered IS NULL AND to_worker IS NOT NULL AND to_worker = :to ORDER BY id LIMIT :most;

-- name: messages_to_tasks
-- List the messages that several tasks (the keys of a JSON object) have not confirmed.
SELECT * FROM messages
WHERE delivered IS NULL AND to_task IS NOT NULL
  AND to_task IN (SELECT CAST(key AS BIGINT) FROM json_each(:tasks)) ORDER BY id LIMIT :most;

-- name: confirm_to_task
-- Confirm the messages to a task up to a number.
UPDATE messages SET delivered = :now
WHERE delivered IS NULL AND to_task IS NOT NULL AND to_task = :to AND id <= :upto;

-- name: confirm_to_worker
-- Confirm the messages to a member up to a number.
UPDATE messages SET delivered = :now
WHERE delivered IS NULL AND to_worker IS NOT NULL AND to_worker = :to AND id <= :upto;

-- name: absent
-- List those of several workers (the keys of a JSON object) that are not present.
SELECT k.key AS id FROM json_each(:workers) k LEFT JOIN workers w ON w.id = k.key
WHERE COALESCE(w.kind, '') = '' OR w.departed IS NOT NULL;

-- name: swarm_heads
-- List the kinds of tasks that are ready for members.
SELECT DISTINCT agent, pinned FROM tasks
WHERE state = 'ready' AND aside IS NULL AND SUBSTR(repo, 1, 6) = 'swarm:';

-- name: ready_for_member
-- List the agents that ready tasks ask for, of tasks that a member could be given.
SELECT DISTINCT agent FROM (
    SELECT repo, agent, pinned FROM tasks WHERE state = 'ready' AND aside IS NULL
    UNION ALL
    SELECT repo, agent, pinned FROM tasks WHERE aside IS NOT NULL) t
WHERE SUBSTR(repo, 1, 6) = 'swarm:' AND (pinned IS NULL OR pinned = :member);

-- name: members_addressed
-- List the members with messages to them, or to tasks they hold.
SELECT to_worker AS id FROM messages WHERE delivered IS NULL AND to_worker IS NOT NULL
UNION
SELECT l.worker FROM messages m CROSS JOIN leases l
WHERE m.delivered IS NULL AND m.to_task IS NOT NULL
  AND l.task = m.to_task AND l.state <> 'released';

-- name: ends_after
-- List the senders of tasks that may have ended after an event.
SELECT DISTINCT t.created_by FROM events e CROSS JOIN tasks t
WHERE e.id > :after AND e.kind IN ('attempt_finished', 'task_landed', 'task_approved',
    'task_cancelled', 'task_skipped', 'task_evicted')
  AND t.id = e.task;

-- name: members_waiting
-- List several members (the keys of a JSON object), with their slots. The outer join makes
-- PostgreSQL look them up by key; it would rather compare each with each.
SELECT w.id, w.agents, w.is_lead, m.capacity
FROM json_each(:workers) k LEFT JOIN workers w ON w.id = k.key
LEFT JOIN limits m ON m.resource = 'worker:' || k.key
WHERE COALESCE(w.kind, '') = 'api' AND w.departed IS NULL;

-- name: slots_used
-- Count the used slots of every member that holds a task.
SELECT l.worker, CAST(SUM(c.amount) AS BIGINT) AS used FROM leases l CROSS JOIN lease_costs c
WHERE l.state <> 'released' AND c.fence = l.fence AND c.resource = 'worker:' || l.worker
GROUP BY l.worker;

-- name: senders_among
-- List those of several senders (the keys of a JSON object) that ever sent a task.
SELECT k.key AS sender FROM json_each(:senders) k
WHERE EXISTS (SELECT 1 FROM tasks t WHERE t.created_by = k.key);

-- name: sent_by
-- List the latest tasks of a sender, latest first.
SELECT * FROM tasks WHERE created_by = :sender ORDER BY id DESC LIMIT :most;

-- name: ends_of_sent
-- List the events that may end a task of a sender.
SELECT e.id, e.at, e.kind, e.data, t.id AS task, t.name, t.reason, t.result
FROM tasks t CROSS JOIN events e
WHERE t.created_by = :sender AND e.task = t.id AND e.id > :after
  AND e.kind IN ('attempt_finished', 'task_landed', 'task_approved', 'task_cancelled',
                 'task_skipped', 'task_evicted')
ORDER BY e.id;

-- name: open_lead
-- Find the latest task of a lead that has not ended.
SELECT MAX(id) AS id FROM tasks
WHERE stage = 'lead' AND run IS NULL AND repo = :repo AND agent = :agent
  AND state NOT IN ('done', 'failed', 'cancelled', 'skipped', 'evicted')
HAVING MAX(id) IS NOT NULL;
