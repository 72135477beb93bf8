"""Print optional dependencies from pyproject.toml, in the format of a requirements file."""

import sys
import tomllib
from pathlib import Path

if __name__ == "__main__":
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extra in sys.argv[1:]:
        print(*project["optional-dependencies"][extra], sep="\n")
