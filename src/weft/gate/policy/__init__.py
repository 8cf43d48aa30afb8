"""The decisions of the gate. Pure: entries and verdicts in, the next step out."""
