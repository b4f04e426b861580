"""Several instances of one model that answer requests together, and whose records make one log.

cluster.py    the life of a request: routed, computed on one instance, moved, decoded on another
instance.py   what the cluster asks of an instance, wherever that is
local.py      an instance of this thread: deterministic, for recordings, lessons and tests
router.py     which instance takes a request
one_log.py    records of several instances, made into one log
"""
