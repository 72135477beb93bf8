"""Code shared by the experiments of several papers."""
