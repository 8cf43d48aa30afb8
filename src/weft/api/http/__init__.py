"""The HTTP face: requests into operations, records into JSON, errors into problems.

It keeps nothing of its own besides open connections: any number of servers on one store are as
good as one. What may be asked for is in `operations`; what it takes to be let in is in `auth` and
`guard`; how one request becomes one transaction is in `asking`.
"""
