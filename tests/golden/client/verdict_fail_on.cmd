json verdict_group
exit 1
run verdict ST --fail-on 18% -o markdown
