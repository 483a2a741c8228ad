json verdict_group
terminal 100
run verdict ST
