json runs
run runs -o jsonl
