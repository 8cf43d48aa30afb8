"""A swarm: agents that joined over the network, and the work they are sent and take.

Every function takes the store and who asks first and the time last, decides in one transaction,
and refuses before it has written anything.
"""
