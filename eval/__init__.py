"""The regression suite: judges a running service over HTTP and imports none of its code.

suite.py      what is asked: golden questions, checked before anything runs
service.py    who is asked: a service behind a URL, or one started here for the run
run.py        asking: every question searched and answered
outcome.py    what one question got, and the metrics of many
matching.py   whether a text holds a gold passage
metrics.py    the formulas
gate.py       thresholds to verdicts
baseline.py   the difference to an earlier run, and whether it is more than chance
report.py     JSON for machines, Markdown for people
public.py     benchmarks in BEIR layout
bench/        speed and memory
"""
