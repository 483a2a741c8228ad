json stages
run stages j --from 11 -o csv
