json status_fresh
run status
