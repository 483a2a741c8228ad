json ranks_more
run ranks j
