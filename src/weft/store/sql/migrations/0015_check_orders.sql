-- Checks on worker hosts: the orders of gates, which a host takes as leases.

ALTER TABLE workers ADD COLUMN checks TEXT NOT NULL DEFAULT ''; -- its kind of machine; '': takes no orders
ALTER TABLE verdicts ADD COLUMN host TEXT NOT NULL DEFAULT ''; -- the host that ran the check; '': home

CREATE TABLE check_orders (
    number BIGINT PRIMARY KEY,
    repo TEXT NOT NULL,
    run TEXT NOT NULL,
    gate BIGINT NOT NULL, -- the fence of the gate that waits for the result
    machine TEXT NOT NULL, -- the kind of machine whose result counts
    tree TEXT NOT NULL,
    head TEXT NOT NULL, -- the commit with that tree which hosts fetch
    base TEXT NOT NULL,
    commands TEXT NOT NULL, -- command lines, as a JSON list of lists
    entries TEXT NOT NULL, -- a JSON list
    fence BIGINT, -- the lease of the last worker that took it
    state TEXT NOT NULL CHECK (state IN ('open', 'done', 'declined', 'withdrawn')),
    result TEXT NOT NULL DEFAULT '' -- of a done order, as JSON; of a declined order, the reason
);
CREATE INDEX check_orders_gate ON check_orders (gate);
CREATE INDEX check_orders_fence ON check_orders (fence) WHERE fence IS NOT NULL;
