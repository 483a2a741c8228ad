json step_culprit_spread
run step j 10
