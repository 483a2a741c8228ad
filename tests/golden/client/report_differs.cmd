json report_differs
exit 1
run report j@1 j@2
