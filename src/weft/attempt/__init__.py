"""One attempt: lease → workspace → agent → outcome.

    site      what all attempts of a process share; where their directories are
    order     what an attempt was started with, kept beside it so that others can go on with it
    brief     a task -> what its agent is told
    begin     a grant -> a workspace with an agent running in it
    follow    output -> reports, use, and how it is going
    outcome   how it ended and what it changed -> what becomes of its task; pure
    attempt   the whole life of one, from its start or its adoption on

Which task is next, renewing leases and finding the dead is left to others.
"""
