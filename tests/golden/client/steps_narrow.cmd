json steps
terminal 80
run steps j
