json report_published
terminal 80
run report run1_bs4 run2_bs8 run3_bs8 run4_bs4 --profile {data}/published_runs/profile.toml
