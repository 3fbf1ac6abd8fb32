"""The lessons are tests: their RUN lines are run as those in tests/ are."""

import os

here = os.path.dirname(os.path.abspath(__file__))
lit_config.load_config(config, os.path.join(os.path.dirname(here), "tests", "lit.cfg.py"))
config.name = "fathom-examples"
config.test_source_root = here
config.test_exec_root = os.path.join(config.test_exec_root, "examples")
