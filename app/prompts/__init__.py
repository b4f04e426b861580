"""Reports of why prompts missed a prefix cache, as text and as an HTML page."""
