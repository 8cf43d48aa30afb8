"""The operations of weft as tools for agents, over MCP.

`tools` has the tools, `arguments` and `tool_results` their types; `sdk_server` serves them with the
official SDK over `http_transport` and `stdio_transport`; `bridge` connects standard input to a
server elsewhere. The SDK takes a second to import, so this module imports none of them.
"""
