"""The HTTP face: requests into operations, records into JSON, errors into problems.

A server keeps no state besides open connections: any number of servers on a store are equal.
Operations are in `swarm` and `runs`, admission of requests in `auth` and `guard`, the way from a
request to a transaction in `requests`.
"""
