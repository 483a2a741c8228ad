json status_hints
terminal 80
run status ddp@2
