"""The forge: pull requests and issues, through the user's own tools.

weft starts `gh`, `glab` or the command of `[publish]` with the user's environment. Authentication
is the tool's own: weft neither reads nor stores a token, and no agent's environment has one.
"""
