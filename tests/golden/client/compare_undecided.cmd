json compare_published
run compare run1_bs4,run4_bs4 run2_bs8,run3_bs8 --profile {data}/published_runs/profile.toml --fail-on 4% -o markdown
