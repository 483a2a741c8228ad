json status_culprit
terminal 80
run status
