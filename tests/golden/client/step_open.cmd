json step_open
run step j 11
