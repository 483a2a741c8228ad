json close
run close j
