"""Static site: the page and recorded runs as files, which any static host can serve (`kvtheater export --site`)."""
