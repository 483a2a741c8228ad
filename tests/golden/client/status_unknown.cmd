json status_unknown
run status ddp
