"""One attempt: lease → workspace → agent → outcome.

    site      what all attempts of a process share; where their directories are
    order     what an attempt was started with, kept beside it so that others can go on with it
    brief     a task -> what its agent is told
    begin     a grant -> a workspace with an agent running in it
    follow    output -> reports, use, and how it is going
    attempt   one under way in this process: looked at, stopped, settled
    outcome   how it ended and what it changed -> what becomes of its task; pure
    settle    the same with its effects, under the fence
    surroundings   the user's checkout before and after
    adoption  taking over from the dead
    remains   what the dead left: orphans, proof of death, workspaces

Which task is next, renewing leases and finding the dead is left to others.
"""
