"""Prediction of the files that a task will change, from its text and the repository's history.

Pure: the history, the tree and the records of earlier attempts are arguments. `docs/design/
prediction.md` describes the sources and the measurements.
"""
