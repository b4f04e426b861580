"""Ground floor: errors, settings, paths, JSON forms, routes. Imports nothing else of the application."""
