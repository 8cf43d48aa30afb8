"""The gate: what becomes of candidates between their last attempt and trunk.

`merge` puts candidates onto a tip without a working tree, `conflicts` says why one does not
fit, `commits` turns merged trees into the commits that land.
"""
