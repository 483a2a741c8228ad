json status_verdict
terminal 100
run status ST
