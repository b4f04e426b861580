"""Setup of an engine before its first step: settings, pool, header, scheduler, ids."""
