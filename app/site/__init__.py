"""A site: the page and recorded runs as plain files, which any static host serves (`kvtheater export --site`)."""
