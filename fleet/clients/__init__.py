"""A running stack as a laptop reaches it: its outputs, its cluster through kubectl, its bucket, its metrics."""

import warnings

# Each command would say on stderr when Google's packages will stop supporting this Python.
warnings.filterwarnings("ignore", category=FutureWarning, module=r"google\.")
