json compare_single
run compare before1 after2
