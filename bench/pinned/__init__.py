"""The parts of bench/pins.py: data, probes, the process that runs them, the comparison."""
