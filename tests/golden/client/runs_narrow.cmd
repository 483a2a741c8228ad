json runs
terminal 70
run runs
