"""Your own `model.generate`, written down: run it, then open the trace in the page or look at it here.

    python examples/watch_generate.py [MODEL] [--prompt TEXT] [--out run.kvtrace]
    kvtheater trace show run.kvtrace
    kvtheater replay run.kvtrace

MODEL is a folder or a hub name; without one it is the small model that comes with KV Theater.
"""

from __future__ import annotations

import argparse

from transformers import AutoModelForCausalLM, AutoTokenizer

from kvtheater import shipped_model, watch_generate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?")
    parser.add_argument("--prompt", action="append", help="may be given several times: they make one batch")
    parser.add_argument("--max-new-tokens", type=int, default=24)
    parser.add_argument("--out", default="run.kvtrace")
    args = parser.parse_args()

    bundled = shipped_model("bundled")
    assert bundled is not None
    source = args.model or str(bundled.folder)
    # as in any script of yours: nothing here knows of KV Theater
    tokenizer = AutoTokenizer.from_pretrained(source, padding_side="left")
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    model = AutoModelForCausalLM.from_pretrained(source, dtype="auto").eval()
    prompts = args.prompt or ["春江潮水连海平，海上明月共潮生。", "床前明月光，"]
    inputs = tokenizer(prompts, return_tensors="pt", padding=True, return_token_type_ids=False)

    # the one line that is new
    with watch_generate(model, tokenizer, args.out):
        outputs = model.generate(**inputs, max_new_tokens=args.max_new_tokens, do_sample=False)

    for line in tokenizer.batch_decode(outputs, skip_special_tokens=True):
        print(line)
    print(f"\n{args.out}: open it with `kvtheater replay {args.out}`, or drop it on the page")


if __name__ == "__main__":
    main()
