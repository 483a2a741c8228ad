json runs
run runs -o csv
