"""Files derived from long logs, and queries answered from them."""
