// Written by `python -m tools.trace_schema` from the types of engine/trace: what `types.js` holds values to.
// A struct is [required fields, optional fields]; a type a name, {list}, {map}, {either}, {one} of texts, or {tagged}.

export const STRUCTS = {
  Adjust: [
    {
      "request_id": "str",
      "seq_ids": {"list": "int"},
      "max_tokens": "int",
      "sampling": {
        "map": {
          "either": [
            "str",
            "whole",
            "float",
            "bool",
            "null",
            {"list": {"either": ["str", "whole"]}},
            {"map": "float"},
          ],
        },
      },
    },
    {},
  ],
  Admit: [
    {"seq_id": "int", "num_cached_tokens": "int", "resumed": "bool"},
    {"num_swapped_tokens": "int"},
  ],
  Allocate: [
    {"seq_id": "int", "block_id": "int", "logical": "int"},
    {
      "reason": {
        "either": [
          {
            "one": ["admission", "append", "chunk", "copy", "recompute", "resume", "swap_in"],
          },
          "null",
        ],
      },
    },
  ],
  AttentionRows: [
    {
      "seq_id": "int",
      "query_start": "int",
      "key_start": "int",
      "heads": {"list": "int"},
      "weights": "array",
    },
    {},
  ],
  BatchEntry: [
    {
      "seq_id": "int",
      "phase": {"one": ["decode", "prefill"]},
      "start": "int",
      "token_ids": {"list": "int"},
      "context_len": "int",
      "samples": "bool",
    },
    {},
  ],
  BlockGroup: [
    {
      "layers": {"list": "int"},
      "first_block": "int",
      "num_blocks": "int",
      "kv_bytes_per_token": "int",
    },
    {"window": {"either": ["int", "null"]}, "sinks": "int"},
  ],
  Cache: [
    {
      "seq_id": "int",
      "block_id": "int",
      "logical": "int",
      "block_hash": "bytes",
      "parent_hash": {"either": ["bytes", "null"]},
      "token_ids": {"list": "int"},
    },
    {},
  ],
  CacheTensors: [{"copied_bytes": "int", "num_copied": "int", "storage_bytes": "int"}, {}],
  Candidate: [{"token_id": "int", "token_bytes": "bytes", "logprob": "float"}, {}],
  Capture: [
    {"index": "int", "dtype": "str", "layers": {"list": "LayerCapture"}},
    {"omitted": "str"},
  ],
  Choose: [{"seq_id": "int", "position": "int", "token_id": "int", "token_bytes": "bytes"}, {}],
  Copy: [{"seq_id": "int", "logical": "int", "src": "int", "dst": "int"}, {}],
  Defer: [
    {
      "seq_id": "int",
      "reason": {
        "one": [
          "fragmented",
          "max_num_seqs",
          "no_free_blocks",
          "step_preempted",
          "token_budget",
        ],
      },
      "needed": "int",
      "available": "int",
    },
    {"num_free": {"either": ["int", "null"]}},
  ],
  Discard: [{"seq_id": "int"}, {}],
  Drop: [{"seq_id": "int", "cpu_block_id": "int"}, {}],
  Evict: [
    {"block_id": "int", "block_hash": "bytes"},
    {
      "seq_id": {"either": ["int", "null"]},
      "lifetime_steps": "int",
      "idle_steps": "int",
      "num_hits": "int",
      "reuse_gap_steps": {"list": "int"},
    },
  ],
  Finish: [
    {"seq_id": "int", "reason": {"one": ["abort", "dropped", "length", "stop"]}},
    {"detail": "str"},
  ],
  Fork: [
    {"parent_seq_id": "int", "seq_id": "int", "request_id": "str"},
    {"reason": {"one": ["beam", "sample"]}, "seed": {"either": ["whole", "null"]}},
  ],
  Free: [
    {
      "seq_id": "int",
      "block_id": "int",
      "to": {"either": [{"one": ["back", "front"]}, "null"]},
    },
    {"reason": {"either": [{"one": ["discard", "finish", "preempt", "swap"]}, "null"]}},
  ],
  HeadPattern: [
    {
      "pattern": "str",
      "layer": "int",
      "head": "int",
      "mean_weight": "float",
      "uniform": "float",
      "queries": "int",
    },
    {},
  ],
  Header: [
    {
      "generator": "str",
      "created": "str",
      "model": "ModelFacts",
      "tokenizer": "TokenizerFacts",
      "engine": {"map": {"either": ["str", "whole", "float", "bool", "null"]}},
      "kv_bytes_per_token": "int",
      "machine": "Machine",
    },
    {"format": "str", "version": "int", "block_groups": {"list": "BlockGroup"}},
  ],
  LayerCapture: [
    {
      "layer": "int",
      "q": "array",
      "k": "array",
      "v": "array",
      "rows": {"list": "AttentionRows"},
    },
    {"out": {"either": ["array", "null"]}},
  ],
  Lookup: [
    {
      "seq_id": "int",
      "verdict": {"one": ["disabled", "hit", "miss", "skipped", "too_short"]},
      "num_tokens": "int",
      "num_hit_tokens": "int",
      "block_ids": {"list": "int"},
    },
    {
      "reason": {
        "either": [
          {
            "one": [
              "differs",
              "earlier_ended",
              "evicted",
              "forgotten",
              "not_computed",
              "nothing_shared",
              "other_salt",
              "shared_too_short",
            ],
          },
          "null",
        ],
      },
      "closest_seq_id": {"either": ["int", "null"]},
      "num_shared_tokens": "int",
      "lost_block_id": {"either": ["int", "null"]},
      "evicted_in": {"either": ["int", "null"]},
      "evicted_for": {"either": ["int", "null"]},
    },
  ],
  Machine: [
    {
      "device": "str",
      "processor": "str",
      "num_threads": "int",
      "versions": {"map": "str"},
    },
    {"roofs": {"either": ["Roofs", "null"]}},
  ],
  Memory: [
    {
      "num_blocks": "int",
      "block_size": "int",
      "blocks_held": "int",
      "blocks_cached": "int",
      "blocks_free": "int",
      "tokens_held": "int",
      "tokens_logical": "int",
      "bytes_held": "int",
      "bytes_used": "int",
      "bytes_cached": "int",
    },
    {"swap_blocks": "int", "swap_blocks_held": "int"},
  ],
  ModelFacts: [
    {
      "name": "str",
      "architecture": "str",
      "num_params": "int",
      "num_layers": "int",
      "hidden_size": "int",
      "intermediate_size": "int",
      "num_heads": "int",
      "num_kv_heads": "int",
      "head_dim": "int",
      "v_head_dim": "int",
      "vocab_size": "int",
      "max_position": "int",
      "dtype": "str",
      "sliding_windows": {"list": {"either": ["int", "null"]}},
    },
    {
      "scalings": {"list": "float"},
      "softcaps": {"list": {"either": ["float", "null"]}},
      "sinks": {"list": {"either": [{"list": "float"}, "null"]}},
      "tie_word_embeddings": "bool",
      "num_active_params": {"either": ["int", "null"]},
      "heads": {"list": "HeadPattern"},
    },
  ],
  Objection: [
    {"text": "str"},
    {
      "rule": "str",
      "seq_id": {"either": ["whole", "null"]},
      "block_id": {"either": ["int", "null"]},
      "said": {"either": ["int", "null"]},
      "counted": {"either": ["int", "null"]},
    },
  ],
  Output: [
    {
      "seq_id": "int",
      "token_id": "int",
      "token_bytes": "bytes",
      "text": "str",
      "logprob": "float",
      "top": {"list": "Candidate"},
    },
    {},
  ],
  Preempt: [
    {
      "seq_id": "int",
      "queue_position": "int",
      "mode": {"one": ["recompute", "swap"]},
      "for_seq_id": "int",
      "num_computed_tokens": "int",
    },
    {
      "reason": {"one": ["deadlock", "last_admitted", "worst_priority"]},
      "num_blocks": "int",
      "num_kept_tokens": "int",
      "num_recompute_tokens": "int",
      "num_bytes": "int",
      "swap_refused": "bool",
    },
  ],
  PromptLogprob: [
    {
      "seq_id": "int",
      "position": "int",
      "token_id": "int",
      "logprob": "float",
      "top": {"list": "Candidate"},
    },
    {},
  ],
  Rank: [
    {
      "request_id": "str",
      "seq_ids": {"list": "int"},
      "scores": {"list": "float"},
      "num_returned": "int",
    },
    {},
  ],
  Release: [
    {
      "seq_id": "int",
      "block_id": "int",
      "logical": "int",
      "reason": {"one": ["policy", "window"]},
      "to": {"either": [{"one": ["back", "front"]}, "null"]},
    },
    {},
  ],
  Reserve: [{"seq_id": "int", "block_id": "int", "num_blocks": "int", "hole_blocks": "int"}, {}],
  Roofs: [
    {
      "dtype": "str",
      "num_threads": "int",
      "measured_at": "str",
      "flops_per_second": "float",
      "matmul_size": "int",
      "matmul_runs": "int",
      "bytes_per_second": "float",
      "copy_bytes": "int",
      "copy_runs": "int",
    },
    {},
  ],
  Sample: [
    {"seq_id": "int", "token_id": "int"},
    {"sampled_token_id": {"either": ["int", "null"]}},
  ],
  Share: [{"seq_id": "int", "block_id": "int", "logical": "int", "revived": "bool"}, {}],
  StepRecord: [
    {
      "index": "int",
      "kind": {"one": ["abort", "adjust", "step", "submit"]},
      "step": "int",
      "timing": "Timing",
      "memory": "Memory",
    },
    {
      "batch": {"list": "BatchEntry"},
      "ops": {
        "list": {
          "tagged": {
            "submit": "Submit",
            "lookup": "Lookup",
            "admit": "Admit",
            "defer": "Defer",
            "reserve": "Reserve",
            "allocate": "Allocate",
            "evict": "Evict",
            "share": "Share",
            "fork": "Fork",
            "copy": "Copy",
            "cache": "Cache",
            "write": "Write",
            "sample": "Sample",
            "choose": "Choose",
            "adjust": "Adjust",
            "swap_out": "SwapOut",
            "swap_in": "SwapIn",
            "preempt": "Preempt",
            "discard": "Discard",
            "drop": "Drop",
            "free": "Free",
            "release": "Release",
            "finish": "Finish",
            "rank": "Rank",
          },
          "by": "type",
        },
      },
      "outputs": {"list": "Output"},
      "prompt_logprobs": {"list": "PromptLogprob"},
      "work": {"either": ["Work", "null"]},
      "cache_tensors": {"either": ["CacheTensors", "null"]},
      "has_capture": "bool",
      "integrity": {"either": [{"list": "Objection"}, "str"]},
    },
  ],
  Submit: [
    {
      "seq_id": "int",
      "queue_position": "int",
      "request_id": "str",
      "prompt_token_ids": {"list": "int"},
      "prompt_token_bytes": {"list": "bytes"},
      "max_tokens": "int",
    },
    {
      "priority": "int",
      "cache_salt": {"either": ["str", "null"]},
      "sampling": {
        "map": {
          "either": [
            "str",
            "whole",
            "float",
            "bool",
            "null",
            {"list": {"either": ["str", "whole"]}},
            {"map": "float"},
          ],
        },
      },
    },
  ],
  SwapIn: [
    {
      "seq_id": "int",
      "logical": "int",
      "block_id": "int",
      "cpu_block_id": "int",
      "num_bytes": "int",
    },
    {},
  ],
  SwapOut: [
    {
      "seq_id": "int",
      "logical": "int",
      "block_id": "int",
      "cpu_block_id": "int",
      "num_bytes": "int",
    },
    {},
  ],
  Timing: [
    {"at": "float"},
    {
      "schedule": "float",
      "prepare": "float",
      "forward": "float",
      "sample": "float",
      "compiled": "bool",
    },
  ],
  TokenizerFacts: [{"name": "str", "vocab_size": "int", "eos_token_ids": {"list": "int"}}, {}],
  Work: [
    {
      "num_tokens": "int",
      "flops": "whole",
      "weight_bytes": "int",
      "kv_read_bytes": "int",
      "kv_write_bytes": "int",
    },
    {},
  ],
  Write: [{"seq_id": "int", "start": "int", "num_tokens": "int"}, {}],
};
