"""A swarm: members that joined over the network, and the work they are sent and take.

Every function takes the store and the caller's identity first and the time last, decides in one
transaction, and refuses before it has written a row. A refusal after a write (an offer that could
not start is in the pool again) is returned, not raised: an exception would undo the write in the
caller's own transaction.
"""
