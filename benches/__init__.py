"""The benchmarks: ``make bench NAME=router``. Each ends with one line of JSON for machines to read."""
