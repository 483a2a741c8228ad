json step
run step j 10 -o csv
