json ranks
run ranks j
