"""The decisions of the gate. Pure: rows and running checks in, the next step out."""
