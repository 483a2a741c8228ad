json compare_four
run compare --plan 3
