json step_culprit_partial
run step j 10
