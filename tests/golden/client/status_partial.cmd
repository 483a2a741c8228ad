json status_partial
terminal 80
run status job@2
