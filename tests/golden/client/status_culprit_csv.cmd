json status_culprit
run status ddp -o csv
