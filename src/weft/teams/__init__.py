"""Teams: several entrants work on a task, and the evidence chooses among their candidates. Pure."""
