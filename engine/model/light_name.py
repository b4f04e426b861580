"""What says that a process is this program's own, known without importing torch (`light_transformers`)."""

LIGHT = "KVTHEATER_LIGHT_IMPORT"  # a variable of the environment, so that processes of this one know it too
