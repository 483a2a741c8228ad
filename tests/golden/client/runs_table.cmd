json runs
run runs -o table
