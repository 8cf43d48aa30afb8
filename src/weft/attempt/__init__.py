"""One attempt: lease → workspace → agent → outcome.

    start           a grant -> a workspace with a running agent
    start_facts     the questions of a start, which one request answers
    start_record    the order of an attempt, kept in its directory for an adopter
    base            the commit that an attempt starts from
    briefing        a task -> the content of its prompt
    attempt         an attempt under way in this process
    output_reader   output -> reports, use and signs of trouble
    start_failure   the end of an attempt whose agent could not be started
    ended_attempt   an attempt whose agent has ended: its failure, answer and summary
    work_commit     commits of the work in its workspace
    outcome         the end of an agent and its changes -> the next state of its task; pure
    settlement      the same with its effects, under the fence
    adoption        continuation of a dead worker's attempt
    orphans         attempts and workspaces of dead workers

The worker chooses tasks, renews leases and finds dead workers.
"""
