json report_single
terminal 80
run report j
