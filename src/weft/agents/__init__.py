"""Agents as values: what their files say, how they are started, what their output means.

    agent       the record                          file      an agent file -> Agent
    frontmatter, values                             what a file is read with
    template    the prompt template, checked        prompt    Agent + Briefing -> text
    spec        the part of a spec.md that concerns one task
    adapters    one module for each program: Agent + prompt -> Launch, output line -> events
    events      what an output line can mean        lines     hostile JSON lines, read gently
    places      where programs keep what is their own
    usage       events + prices -> tokens and dollars of one attempt
    classify    how an attempt ended -> Failure     trouble   statuses and phrases of failures

Everything here is pure. Reading files, starting programs, following their output and deciding
what becomes of the task is left to others.
"""
