"""One model over several devices: what each holds and does, what they say to each other, and how many of them pay."""
