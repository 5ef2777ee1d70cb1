"""Traces: what a profiler wrote, as one event model; then whose time it was. The modules, in the order data flows:

1. Files to one `events.Trace`, tables of numpy columns. `files` (which, and whose rank), `opened` (plain, gzip, zip),
   `opening` (the reader by content), `readers/` (one per form), `refusal` (what is no trace), `twins` (one recording
   twice), `join` (one clock, one table of names), `tables` (rows made, chosen, joined), `cpu` (operators in the place
   of kernels, without a device), `capture` (names of kernels in graphs, from a trace of their capture).
2. Steps, and each event's, as `split.Split`. `steps` wires: `attribution` (the launch of an event, the step of a
   launch), `found` (where steps are: `marks` by bands, `annotations` what those say, `rhythm` without any), `strays`.
3. The phase of a step that nothing names. `phase` weighs what `tells` reads from the names of kernels and `shapes` from
   the shapes of operators. `said` is the user's word for whole files.
4. Whose time it was. `families` (by name, families.csv) and `roles` (by place in the layer); `laid` (all of it, by
   steps), `bands` (where steps lie), `busy` (unions and gaps), `kinds` and `summed` (rows of a phase), `launching`
   (what starting kernels cost), `untimed` and `speed_of_light` (files without a timeline, and counters).
5. Whether to believe it. `health` asks `lengths` (events too long to be true), `pairs` (launches and kernels),
   `together` (ranks) and itself; `verdicts` has the words.
6. Out. `section` makes the record's `Traced`, `timeline` the bars of its picture; `annotate` and `chrome` write the
   trace again with its phases.
"""
