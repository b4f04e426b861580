"""Environment variable that marks this program's own processes; imports no torch (`light_transformers`)."""

LIGHT = "KVTHEATER_LIGHT_IMPORT"  # inherited by child processes
