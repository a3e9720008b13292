"""Wait until the model server lists the clients' model."""

from __future__ import annotations

import http.client
import json
import logging
import os
import sys
import time
import urllib.error
import urllib.request

POLL_SECONDS = 5.0
LOG = logging.getLogger("wait_for_server")


def wait_for_server(endpoint: str, model: str, *, until: float, poll_seconds: float = POLL_SECONDS) -> None:
    """Return once the server lists the model. Exits when it does not by the moment `until` (epoch seconds)."""
    url = f"{endpoint}/v1/models"
    key = os.environ.get("OPENAI_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    while True:
        try:
            request = urllib.request.Request(url, headers=headers)  # noqa: S310 - the endpoint is http by construction
            with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
                served = [str(entry["id"]) for entry in json.load(response)["data"]]
            if model in served:
                return
            sys.exit(f"{url} serves {', '.join(served)}, not {model}: the clients would get errors only")
        except urllib.error.HTTPError as error:
            if error.code in (401, 403):
                sys.exit(f"{url}: HTTP {error.code}: the API key in this pod is not the server's")
            problem = f"HTTP {error.code}"
        except (OSError, http.client.HTTPException) as error:
            problem = str(error) or type(error).__name__
        except (ValueError, KeyError, TypeError):
            # A gateway before a starting server may answer with its own page.
            problem = "the answer is not a list of models"
        if time.time() >= until:
            sys.exit(f"{url} did not answer in time: {problem}")
        LOG.info("waiting for %s: %s", url, problem)
        time.sleep(poll_seconds)
