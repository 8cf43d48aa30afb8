-- Orders of gates for checks on worker hosts.

-- name: check_workers
-- List the present workers that take orders for a kind of machine.
SELECT id, seen, repos FROM workers WHERE departed IS NULL AND checks = :machine ORDER BY id;

-- name: add_check_order
-- Add an order.
INSERT INTO check_orders (number, repo, run, gate, machine, tree, head, base, commands, entries, state)
SELECT :number, repo, id, :gate, :machine, :tree, :head, :base, :commands, :entries, 'open'
FROM runs WHERE id = :run;

-- name: untaken_check_orders
-- List the orders of open gates that no worker runs, for a kind of machine and some repositories
-- (the keys of a JSON object).
SELECT o.* FROM check_orders o JOIN leases g ON g.fence = o.gate
WHERE o.state = 'open' AND o.machine = :machine AND g.state <> 'released'
  AND o.repo IN (SELECT key FROM json_each(:repos))
  AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.fence = o.fence AND l.state <> 'released')
ORDER BY o.number;

-- name: assign_check_order
-- Give an order to the worker with this lease.
UPDATE check_orders SET fence = :fence WHERE number = :number;

-- name: check_order_under
-- Find the order that was taken with a lease, and the state of its gate.
SELECT o.*, g.state AS gate_state FROM check_orders o LEFT JOIN leases g ON g.fence = o.gate
WHERE o.fence = :fence;

-- name: answer_check_order
-- Record the result of an order, or the reason why its host declined it.
UPDATE check_orders SET state = :state, result = :result WHERE number = :number;

-- name: check_orders_of
-- List the orders of a gate with the lease of the worker that took each.
SELECT o.*, l.state AS lease_state, l.host AS host
FROM check_orders o LEFT JOIN leases l ON l.fence = o.fence
WHERE o.gate = :gate AND o.state <> 'withdrawn' ORDER BY o.number;

-- name: withdraw_check_order
-- Withdraw an order of a gate: a worker that runs it stops.
UPDATE check_orders SET state = 'withdrawn' WHERE number = :number AND gate = :gate;

-- name: take_back_check_order
-- Withdraw an order that no worker runs.
UPDATE check_orders SET state = 'withdrawn'
WHERE number = :number AND gate = :gate AND state = 'open'
  AND NOT EXISTS (
      SELECT 1 FROM leases l WHERE l.fence = check_orders.fence AND l.state <> 'released');

-- name: forget_check_orders
-- Delete the orders that no gate and no worker needs any more.
DELETE FROM check_orders
WHERE (state = 'withdrawn' OR NOT EXISTS (
      SELECT 1 FROM leases g WHERE g.fence = check_orders.gate AND g.state <> 'released'))
  AND NOT EXISTS (
      SELECT 1 FROM leases l WHERE l.fence = check_orders.fence AND l.state <> 'released');
