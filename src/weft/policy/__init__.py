"""Pure decisions: who goes next, what fits, who makes way.

Every function here maps values to a value. The store calls them inside its transactions,
the forecast calls them in simulated time, and tests call them with tables of cases.
"""
