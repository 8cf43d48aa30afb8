"""Operations: each verb that a person, an agent or a program may ask for, once.

`registry` tells what an operation is; `steering` and `reviewing` have the operations by subject,
`operation_list` all of them. The faces derive routes, tools, buttons and commands from the list.
"""
