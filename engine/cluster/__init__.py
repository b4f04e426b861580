"""Instances of one model that answer requests together, and whose records make one log.

cluster.py          the life cycle of a request: routed, prefilled on one instance, moved, decoded on another
inflight.py         a request in flight
instance.py         interface of an instance, wherever it runs
local.py            an instance of this thread: deterministic, for recordings, lessons and tests
process.py          an instance that is a process of this machine, or a Ray actor (ray_worker.py)
router.py           choice of the instance of a request (pace.py: its throughput; pool_view.py: its cached blocks)
one_log.py          records of several instances, merged into one log
build.py            construction of clusters of this thread (process_cluster.py: of processes)

For processes:      messages.py (the messages), worker.py (the process), inbox.py (its inbox), worker_process.py
                    (starting and pooling), processes.py (those of one cluster, and their common folder), exchange.py
                    (access to the blocks of others)
"""
