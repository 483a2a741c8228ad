json status_losses
run status
