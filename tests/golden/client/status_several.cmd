json several
run status
