"""The database: who holds what, what waits for what, what happened.

`open_store` chooses the driver by URL. The verbs are functions in the modules of this
package, each one transaction over a `Store`:

    runs, tasks    submit, cancel, retry, skip, pause and resume
    admission      admit a task with every amount and claim it needs, or say what it waits for
    leases         renew, release, finish, extend, adopt, and what becomes of suspects
    offers         offer, accept, reject, assign
    workers        register, heartbeat, depart
    limits         set, list, compare with a configuration, penalise a provider
    events         read the log from any point
"""

from weft.store.store import Store, default_url, open_store

__all__ = ["Store", "default_url", "open_store"]
