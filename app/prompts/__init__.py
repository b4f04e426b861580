"""Reports of why prompts missed a prefix cache, in words and as a page."""
