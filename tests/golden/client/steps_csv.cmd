json steps
run steps j -o csv
