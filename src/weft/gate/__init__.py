"""The gate: the way of candidates from their last attempt to trunk.

`gate_loop` takes and keeps a run's gate; `holder` does its turns. A turn reads rows, asks `policy`
for the next step, merges (`merge`), checks (`check_pool`, `check_run`) and lands
(`commits`, `trunk`). `proof` verifies landings afterwards.
"""
