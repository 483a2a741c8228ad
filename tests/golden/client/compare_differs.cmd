json compare_differs
exit 6
run compare before1 other_seed
