"""Agents as values: their files, their command lines, the meaning of their output.

    agent           the record                     agent_file     an agent file -> Agent
    frontmatter     YAML with line numbers         file_values    typed values of settings
    template        the prompt template, checked   prompt         Agent + Briefing -> text
    spec            the parts of a spec.md that concern a task
    adapters        a module per program: Agent + prompt -> Launch, output line -> events
    events          the meanings of output lines   json_lines     lenient JSON
    program_files   directories and files of programs
    usage           events + prices -> tokens and dollars of an attempt
    classify        the end of an attempt -> Failure
    failure_text    statuses and phrases of failures
    reset_time      the end of a rate limit        review_answer  verdicts of reviewers

Pure: callers read files, start programs, follow their output and settle the task.
"""
