"""Sets up the process that runs the programs."""

from __future__ import annotations

import os

# Nothing is downloaded: models are made from configurations.
os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}

from . import without_operators

assert without_operators.library
