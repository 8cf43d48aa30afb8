"""The database.

`open_store` chooses the driver by URL. The verbs are functions in the modules of this package, each
a transaction over a `Store`, or a part of a transaction that is open:

    runs, tasks       submit, cancel, retry, skip, pause and resume
    admission         admit a task with every amount and claim it needs
    leases            renew, release, extend, adopt, free suspects
    attempt_end       finish an attempt with its outcome
    offers            offer, accept, reject, assign
    workers, members  register, heartbeat, depart
    limit_table       set, list, compare with a configuration, penalise a provider
    events            read the log from any point
"""

from weft.store.store import Store, default_url, open_store

__all__ = ["Store", "default_url", "open_store"]
