json verdict_group
run verdict ST -o csv
