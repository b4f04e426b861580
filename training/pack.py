"""Pack the corpora into rows of token ids for a run on another machine.

    python -m training.pack --corpus FOLDER --config training/bundled.toml --out FILE.safetensors
                            [--tokenizer FOLDER] [--variant gpu] [--mib 48]

The file has `--mib` MiB of the mix, for both phases. A run passes over it repeatedly in different orders. Held-out
poems and books are excluded.
"""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path

from tokenizers import Tokenizer
from torch import Tensor

from training.config import load_config
from training.corpus import END_OF_TEXT, read_split
from training.data import encode_corpus, mix, rows, token_id
from training.packed import BYTES_PER_TOKEN, packed_rows, write_packed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="folder with the corpora")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tokenizer", type=Path, default=Path("engine/model/bundled"), help="(default: %(default)s)")
    parser.add_argument("--variant", default="gpu", help="variant of the configuration (default: %(default)s)")
    parser.add_argument("--mib", type=float, default=48.0, help="size of the file in MiB (default: %(default)s)")
    args = parser.parse_args()
    config = load_config(args.config, variant=args.variant)
    train = config["train"]
    tokenizer = Tokenizer.from_file(str(args.tokenizer / "tokenizer.json"))
    end = token_id(tokenizer, END_OF_TEXT)
    corpus = read_split(args.corpus, config["data"])
    tensors: dict[str, Tensor] = {}
    for length, share in (
        (train["row_tokens"], 1 - train["long"]["share"]),
        (train["long"]["row_tokens"], train["long"]["share"]),
    ):
        total = int(args.mib * 2**20 * share / BYTES_PER_TOKEN)
        stream = mix(encode_corpus(corpus, tokenizer, length), config["data"], total, train["seed"], share)
        packed = packed_rows(list(islice(rows(stream, length), total // length)), length, end)
        tensors |= packed
        print(f"{packed[f'{length}.ends'].sum():,} tokens in rows of {length}", flush=True)
    write_packed(tensors, args.out)
    print(f"{args.out}: {args.out.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
