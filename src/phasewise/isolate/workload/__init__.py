"""Load: the plan (who sends what when), one worker that runs its share of it, and the figures of the merged rows.

Nothing in a plan depends on the process that reads it, so several workers, here or elsewhere, run one plan together:
each takes ``plan.share(worker, workers)``, and their rows are merged, never their percentiles.
"""
