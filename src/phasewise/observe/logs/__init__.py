"""Request logs: who asked for how many tokens and got how many, read as a stream.

A log is read in blocks of whole lines; what is kept of it is a histogram of lengths, so a log of any size takes little
memory, and sums over its requests stay exact. The blocks are split by numpy and msgspec: ten million rows take seconds
on one core, and every refusal can name its line.
"""

from __future__ import annotations
