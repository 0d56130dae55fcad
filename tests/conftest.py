"""What all tests share."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE / "space")]  # tests share `fakes` and `strategies`
