"""Several engine instances of one model that serve requests together and write one log.

cluster.py          life cycle of a request: route, prefill on one instance, transfer, decode on another
inflight.py         state of an unfinished request
instance.py         interface of an instance
local.py            instance in this thread: deterministic, for recordings, lessons and tests
process.py          instance in a process of this machine, or in a Ray actor (ray_worker.py)
router.py           choice of the instance of a request (pace.py: its throughput; pool_view.py: its cached blocks)
one_log.py          records of several instances, merged into one log
build.py            construction of a cluster in this thread (process_cluster.py: of processes)

For processes:      messages.py (the messages), worker.py (main of the process), inbox.py (its inbox),
                    worker_process.py (starting and pooling processes), processes.py (the processes of one cluster and
                    their shared folder), exchange.py (access to the blocks of other instances)
"""
