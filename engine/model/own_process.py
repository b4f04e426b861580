"""Environment variable that marks this program's own processes, which may start others; imports no torch."""

OWN_PROCESS = "KVTHEATER_OWN_PROCESS"  # inherited by child processes
