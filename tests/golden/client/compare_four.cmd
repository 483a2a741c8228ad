json compare_four
run compare before1,before4,before6,before7 after2,after3,after5,after8 --fail-on 3
