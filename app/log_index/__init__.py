"""Files derived from long logs, and the questions that are answered from them."""
