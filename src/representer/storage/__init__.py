"""Files that survive a kill: atomic writes, checkpoints, the locked run folder."""
