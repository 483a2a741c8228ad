json steps
run steps j
