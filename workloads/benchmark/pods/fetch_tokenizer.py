"""Download a model's tokenizer at a pinned revision, without its weights, for a pod that has no weights volume.

Arguments: REPOSITORY REVISION FOLDER. Runs once per benchmark pod, so that sixteen clients do not each ask the Hub, and
so that they tokenize with the files of the revision that is served.
"""

from __future__ import annotations

import logging
import os
import sys
import time

PATTERNS = (
    "config.json",
    "tokenizer*",
    "vocab*",
    "merges*",
    "special_tokens*",
    "added_tokens*",
    "chat_template*",
    "*.model",
)
ATTEMPTS = 5
LOG = logging.getLogger("fetch_tokenizer")


def main(repository: str, revision: str, folder: str, pause_seconds: float = 10.0) -> None:
    """Download the files. Exits with the last error after five attempts."""
    # Xet transfers have stalled without an error; these few megabytes do not need it.
    os.environ["HF_HUB_DISABLE_XET"] = "1"
    from huggingface_hub import snapshot_download  # of the pod's image

    for attempt in range(1, ATTEMPTS + 1):
        try:
            snapshot_download(repository, revision=revision, allow_patterns=list(PATTERNS), local_dir=folder)
        except Exception as error:
            LOG.warning("attempt %d of %d: %s", attempt, ATTEMPTS, error)
            if attempt == ATTEMPTS:
                sys.exit(f"cannot fetch the tokenizer of {repository} at {revision}: {error}")
            time.sleep(pause_seconds * attempt)
        else:
            LOG.info("the tokenizer of %s at %s is in %s", repository, revision, folder)
            return


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    main(sys.argv[1], sys.argv[2], sys.argv[3])
