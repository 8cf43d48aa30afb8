"""Planning: the files that a task will change, the split of a task, the schedule of a plan.

Pure: the history, the tree and the records of earlier attempts are arguments. `docs/design/
prediction.md` and `docs/design/planning.md` describe the sources and the measurements.
"""
