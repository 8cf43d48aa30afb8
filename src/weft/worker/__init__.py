"""A process at work: engine, scheduler, reaper, heartbeat, and projections of the event log."""
