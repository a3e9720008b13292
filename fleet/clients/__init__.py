"""Access to a running stack from a laptop: outputs, cluster through kubectl, bucket, metrics."""

import warnings

# Google's packages print on stderr when they will stop supporting this Python.
warnings.filterwarnings("ignore", category=FutureWarning, module=r"google\.")
