-- A run is untested until its gate has found the base in order: no agent of it starts before.

ALTER TABLE runs ADD COLUMN untested BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX runs_untested ON runs (id) WHERE untested;
