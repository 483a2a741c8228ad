json compare_four
run compare --plan 4 -o json
