"""A small agent that asks six questions, twice: with the clock at the head of its prompt, then at its end.

    kvtheater serve --api --block-size 8            # in one terminal; needs `pip install openai` for the other
    python examples/agent_prompt_order.py           # prints what of each prompt came from the cache, and where to look

What changes between two requests belongs to the end: a prompt hits the prefix cache up to the first token that differs,
so a clock at the head means that nothing before it is shared, and everything after it is computed again each time.
"""

from __future__ import annotations

import argparse
import datetime
import sys

from openai import APIError, OpenAI

RULES = """You are a storyteller. You tell short tales about animals, kings and the sea.
You never hurry. You end each tale with a wise word of the oldest animal in it.
You know a fox, a hedgehog, an owl, a king with two daughters, and a fisherman who caught nothing but stories.
When somebody asks for a tale, begin at once."""
TOPICS = ("the fox", "the owl", "the king", "the sea", "the hedgehog", "the fisherman")


def prompt(topic: str, clock_first: bool) -> str:
    """Return the agent's prompt for one topic."""
    clock = f"It is {datetime.datetime.now():%H:%M:%S.%f}."
    question = f"Tell me a tale about {topic}."
    return f"{clock}\n{RULES}\n{question}\n" if clock_first else f"{RULES}\n{question}\n{clock}\n"


def run(client: OpenAI, model: str, clock_first: bool) -> tuple[int, int]:
    """Return the number of tokens of all prompts, and of those that came from the cache."""
    total = cached = 0
    for topic in TOPICS:
        answer = client.completions.with_raw_response.create(
            model=model, prompt=prompt(topic, clock_first), max_tokens=24, temperature=0
        )
        usage = answer.parse().usage
        assert usage is not None and usage.prompt_tokens_details is not None
        hit = usage.prompt_tokens_details.cached_tokens or 0
        total, cached = total + usage.prompt_tokens, cached + hit
        print(f"  {topic:14} {hit:4} of {usage.prompt_tokens:4} tokens cached   {answer.headers['x-kvtheater-link']}")
    return total, cached


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base-url", default="http://127.0.0.1:8765/v1")
    parser.add_argument("--model", default="bundled")
    arguments = parser.parse_args()
    for key, title, clock_first in (("clock-first", "the clock first", True), ("clock-last", "the clock last", False)):
        print(f"{title}:")
        client = OpenAI(base_url=arguments.base_url, api_key=key)  # a key each: the page tells the two apart
        try:
            total, cached = run(client, arguments.model, clock_first)
        except APIError as error:
            sys.exit(f"{arguments.base_url}: {error.message.rstrip('.')}; is `kvtheater serve --api` running there?")
        print(f"  {cached} of {total} prompt tokens came from the cache ({cached / total:.0%})\n")
    print("Each link shows the step; the page's Prefix panel says where a prompt's hits end, and why.")


if __name__ == "__main__":
    main()
