json runs
run runs -o markdown
