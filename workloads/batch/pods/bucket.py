"""A batch's objects in its bucket, as its pods read, create, replace, list and delete them."""

from __future__ import annotations

import urllib.error
import urllib.parse
import urllib.request

from workloads.benchmark.pods.results_bucket import Bucket


class BatchBucket(Bucket):
    """The batch's bucket. `put` creates an object once. Every method raises BucketError after its last attempt."""

    def read(self, name: str) -> bytes | None:
        """An object's content; None if it does not exist."""
        found: list[bytes] = []
        self._ask("GET", name, "?alt=media", found)
        return found[0] if found else None

    def delete(self, name: str) -> None:
        """Delete an object; a missing object is not an error."""
        self._ask("DELETE", name, "", [])

    def names(self, prefix: str) -> list[str]:
        """Names of the objects below a prefix, in order."""
        found: set[str] = set()

        def read() -> None:
            query = {"prefix": prefix, "fields": "items(name),nextPageToken"}
            while True:
                page = self._call(f"{self.storage_url}/storage/v1/b/{self.name}/o?{urllib.parse.urlencode(query)}")
                found.update(item["name"] for item in page.get("items", ()))
                if "nextPageToken" not in page:
                    return
                query["pageToken"] = page["nextPageToken"]

        self._persist(f"list gs://{self.name}/{prefix}", read)
        return sorted(found)

    def _ask(self, method: str, name: str, query: str, found: list[bytes]) -> None:
        url = f"{self.storage_url}/storage/v1/b/{self.name}/o/{urllib.parse.quote(name, safe='')}{query}"

        def ask() -> None:
            headers = {"Authorization": f"Bearer {self._bearer()}"}
            request = urllib.request.Request(url, headers=headers, method=method)  # noqa: S310 - http(s) by construction
            try:
                with urllib.request.urlopen(request, timeout=self.timeout_seconds) as response:  # noqa: S310
                    found.append(response.read())
            except urllib.error.HTTPError as error:
                if error.code != 404:
                    raise

        self._persist(f"{method} gs://{self.name}/{name}", ask)
