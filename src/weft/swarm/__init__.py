"""A swarm: agents that joined over the network, and the work they are sent and take.

Every function takes the store and who asks first and the time last, decides in one transaction,
and refuses before it has written anything. What is refused although something was done (an offer
that could not start and is in the pool again) is returned, not raised: raised, it would undo what
it tells of wherever the caller's own transaction is the one that ends.
"""
