"""Several instances of one model that answer requests together, and whose records make one log.

cluster.py          the life of a request: routed, computed on one instance, moved, decoded on another
flight.py           one request on that way
instance.py         what the cluster asks of an instance, wherever that is
local.py            an instance of this thread: deterministic, for recordings, lessons and tests
process.py          an instance that is a process of this machine, or a Ray actor (ray_worker.py)
router.py           which instance takes a request (pace.py: how fast it is; pool_view.py: what it has cached)
one_log.py          records of several instances, made into one log
build.py            clusters put together, of this thread (process_cluster.py: of processes)

Of a process:       messages.py (what is said), worker.py (its own side), inbox.py (what comes to it), worker_process.py
                    (starting and keeping them), processes.py (those of one cluster, and where they meet), exchange.py
                    (how it reaches the blocks of others)
"""
