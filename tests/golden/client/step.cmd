json step
run step j 10
