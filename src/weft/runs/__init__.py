"""Operations on runs: submit, watch, explain, steer, report."""
