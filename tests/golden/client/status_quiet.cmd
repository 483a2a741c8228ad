json status_quiet
terminal 80
run status
