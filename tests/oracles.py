"""Numbers computed elsewhere, in a file that ``DRGCN_ORACLES`` points to.

Three test files answer them; ``test_oracles.py`` asserts that no case is left over.
"""

import json
import os
from pathlib import Path

FILE = os.environ.get("DRGCN_ORACLES")
CASES = json.loads(Path(FILE).read_text(encoding="utf-8"))["open"] if FILE else []
WITHOUT_FILE = "set DRGCN_ORACLES to the file of oracles"
