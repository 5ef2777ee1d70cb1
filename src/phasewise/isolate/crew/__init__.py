"""Many workers, here or on other machines, that run one plan together as one client.

`clocks` puts their times on ours, `member` is what runs at each worker, `hand` is how we call it, `crew` shares a plan
out and gathers rows, `on_ray` finds the workers.
"""
