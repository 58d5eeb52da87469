"""python -m grafana.generate DIRECTORY [URL of the live page]: writes the dashboards."""

import sys
from pathlib import Path

from grafana.generate.boards import write

write(Path(sys.argv[1]), *sys.argv[2:3])
