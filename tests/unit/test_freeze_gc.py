"""Frozen objects are skipped by the garbage collector; later ones are not."""

import gc
import weakref

from engine.system.freeze_gc import freeze_gc


class Knot:
    """Garbage that only the collector finds."""

    def __init__(self) -> None:
        self.itself = self


def test_only_frozen_objects_are_skipped_by_the_gc() -> None:
    assert gc.isenabled()
    try:
        with freeze_gc():
            assert not gc.isenabled(), "a collection would look at everything again and again"
            knot = Knot()
            early = weakref.ref(knot)
        assert gc.isenabled()
        assert all(one is not knot for one in gc.get_objects()), "a collection would look at it"
        del knot
        later = weakref.ref(Knot())
        gc.collect()
        assert early() is not None and later() is None
    finally:
        gc.unfreeze()
    gc.collect()
    assert early() is None
