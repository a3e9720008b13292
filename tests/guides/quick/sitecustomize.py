"""Python imports this when it starts: with `QUICK` of tests/guides/world.py, programs load the provider SDKs as `fleet preview` does.

That this changes nothing is held by tests/fleet/preview/record/test_quick_sdk.py; every rehearsal loads them whole.
"""

from fleet.preview.record import quick_sdk

quick_sdk.install()
