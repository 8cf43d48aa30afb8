-- Worker hosts: tokens by which they join, tokens bound to a host that has joined, and workers that
-- leave the gates to the home of their repository.

ALTER TABLE tokens ADD COLUMN uses BIGINT; -- how many hosts may still join with it; NULL: none ever
ALTER TABLE tokens ADD COLUMN worker TEXT; -- the host that joined with it; NULL: of no host
ALTER TABLE workers ADD COLUMN gates BOOLEAN NOT NULL DEFAULT TRUE; -- it serves gates too
ALTER TABLE workers ADD COLUMN lacks TEXT NOT NULL DEFAULT '{}'; -- reasons by agent, as JSON
