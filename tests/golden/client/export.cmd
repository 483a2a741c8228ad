json export
run export j
