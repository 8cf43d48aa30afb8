"""Figures that tell how far weft is from its lower bounds: `make bench`.

One line per figure, `name value unit`. Ratios are measured in one run against a bare loop
of the same work, so they say the same on a fast and on a slow machine.
"""
