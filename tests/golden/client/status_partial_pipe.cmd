json status_partial
run status job@2
