"""Operations: each verb that a person, an agent or a program may ask for, once.

`registry` tells what an operation is, `identity` the rights of its caller; `steering` and
`reviewing` have the operations by subject, `operation_list` all of them. The faces derive routes,
tools, buttons and commands from the list. `membership`, `dispatch`, `member_work`, `inbox` and
`long_poll` are the work of members, which joined over the network: each function decides in one
transaction and refuses before it has written a row. A refusal after a write is returned, not
raised: an exception would undo the write in the caller's own transaction.
"""
