json ranks
run ranks j -o jsonl
