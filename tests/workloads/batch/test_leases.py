from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

from lab.simulators.bucket import LocalBucket, is_state_of_a_batch
from tests.fleet.clients.fake_google import FakeGoogle, fake_google
from tests.workloads.batch.played import batches
from tests.workloads.batch.stored import PREFIX
from workloads.batch.pods.leases import Leases, lease_name
from workloads.batch.pods.store import Store


def store(bucket: LocalBucket) -> Store:
    return Store(bucket.name, bucket.url, bucket.url, pause_seconds=0.01, prefix=PREFIX)


def leases(bucket: LocalBucket) -> Leases:
    return Leases(store(bucket), pod="", seconds=90)


def age(bucket: LocalBucket, name: str, seconds: float) -> None:
    """Make an object older, by the bucket's clock."""
    with bucket.lock:
        stored = bucket.objects[f"{PREFIX}{name}"]
        at = datetime.fromisoformat(stored.at) - timedelta(seconds=seconds)
        bucket.objects[f"{PREFIX}{name}"] = dataclasses.replace(
            stored, at=f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
        )


def test_of_two_clients_one_has_the_lease_until_it_gives_it_back() -> None:
    with batches() as bucket:
        first, second = leases(bucket), leases(bucket)
        lease = first.take(3, None)
        assert lease is not None
        assert second.take(3, None) is None
        assert first.renew(lease)
        assert first.renew(lease), "each renewal is of the generation of the last one"
        first.give_back(lease)
        assert second.take(3, None) is not None
        assert not first.renew(lease)
        first.give_back(lease)
        assert 3 in second.listed(), "another's lease stays"


def test_a_lease_is_over_by_the_buckets_clock_and_its_former_holder_learns_it() -> None:
    with batches() as bucket:
        first, second = leases(bucket), leases(bucket)
        lease = first.take(0, None)
        assert lease is not None
        assert not second.is_over(second.listed()[0])
        age(bucket, lease_name(0), 100)
        seen = second.listed()[0]
        assert second.is_over(seen)
        theirs = second.take(0, seen)
        assert theirs is not None
        assert not first.renew(lease)
        assert second.renew(theirs)
        assert leases(bucket).take(0, seen) is None, "a third that saw the same end comes too late"


def test_a_renewal_just_before_the_end_keeps_the_lease() -> None:
    with batches() as bucket:
        first, second = leases(bucket), leases(bucket)
        lease = first.take(0, None)
        assert lease is not None
        age(bucket, lease_name(0), 100)
        seen = second.listed()[0]
        assert first.renew(lease)
        assert second.take(0, seen) is None


def losing(google: FakeGoogle, uploads: int) -> FakeGoogle:
    """The next uploads are stored, and their answers are not."""
    google.uploads_lost = uploads
    return google


def test_a_lease_whose_answer_was_lost_is_this_clients_all_the_same() -> None:
    with fake_google(overwritable=is_state_of_a_batch) as google:
        mine = leases(losing(google, 1))
        lease = mine.take(0, None)
        assert lease is not None
        google.uploads_lost = 1
        lease.generation = lease.fence
        # One attempt: the renewal fails, is stored, and the next one finds its own text.
        mine._brief.attempts = 2
        assert mine.renew(lease)
        assert lease.generation > lease.fence
        assert mine.renew(lease)
