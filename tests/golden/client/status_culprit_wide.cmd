json status_culprit
terminal 140
run status ddp
