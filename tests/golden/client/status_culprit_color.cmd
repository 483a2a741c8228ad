json status_culprit
terminal 100 color
run status ddp
