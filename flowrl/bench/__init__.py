"""Speed measurements: `python -m flowrl.bench NAME`."""
