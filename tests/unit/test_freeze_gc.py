"""The garbage collector skips frozen objects only."""

import gc
import weakref

from engine.system.freeze_gc import freeze_gc


class Cycle:
    """Object in a reference cycle."""

    def __init__(self) -> None:
        self.itself = self


def test_only_frozen_objects_are_skipped_by_the_gc() -> None:
    assert gc.isenabled()
    try:
        with freeze_gc():
            assert not gc.isenabled(), "each collection would scan every object"
            cycle = Cycle()
            early = weakref.ref(cycle)
        assert gc.isenabled()
        assert all(one is not cycle for one in gc.get_objects()), "a collection would scan it"
        del cycle
        later = weakref.ref(Cycle())
        gc.collect()
        assert early() is not None and later() is None
    finally:
        gc.unfreeze()
    gc.collect()
    assert early() is None
