"""Decisions before the first step: settings, pool, header, scheduler, ids."""
