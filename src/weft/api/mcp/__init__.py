"""weft's operations as tools for agents, over MCP.

The tools are in `tools`, what they take in `arguments`, what they answer in `answers`; `server`
puts them on the wire with the official SDK, `http` and `stdio` are the two ways in, and `bridge`
is the way to a server elsewhere. The SDK takes a second to import, so nothing is imported here.
"""
