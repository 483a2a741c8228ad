json runs
run runs -o json
