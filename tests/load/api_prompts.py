"""Prompts of the load: beginnings of stories and poems, some with common prefixes."""

MAX_TOKENS = 64
PROMPTS = [
    f"{beginning} {rest}"
    for beginning in ("Once upon a time there was a king", "春江潮水连海平，海上明月共潮生。", "The little house stood")
    for rest in ("lived", "had a daughter", "滟滟随波千万里", "何处", "in the wood", "went out")
]
