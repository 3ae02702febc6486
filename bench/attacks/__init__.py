"""Fresh attacks on the command line: what `bench/trials.py` draws and runs."""
