"""Many workers, here or on other machines, that send together as one client.

`clocks` puts their times on ours, `member` is what runs at each worker, `hand` is how we call it, `on_ray` finds the
workers. A load's plan is shared out beforehand by `crew`, which gathers rows; where each request follows from what came
before, as in a sweep, `afar` hands them out one by one to an `outpost` at each worker.
"""
