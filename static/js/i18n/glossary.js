// The field's words, each defined in both languages.

export const GLOSSARY = {
  kv_cache: {
    en: ["KV cache", "Keys and values of tokens already computed, kept so that no step computes them again."],
    zh: ["KV 缓存", "已算过的词元的键和值，留下来，之后的每一步都不必重算。"],
  },
  query: {
    en: ["query", "The vector with which the token being computed asks. Used once, then dropped."],
    zh: ["查询", "正在计算的词元用来提问的向量。只用一次，用完即弃。"],
  },
  key: {
    en: ["key", "The vector by which a token is found by later queries. Kept in the cache, after rotation by its position."],
    zh: ["键", "之后的查询据以找到某个词元的向量。按位置旋转之后存入缓存。"],
  },
  value: {
    en: ["value", "What a token hands over when a query reads it, in proportion to the attention weight."],
    zh: ["值", "词元被查询读取时交出的内容，按注意力权重加权。"],
  },
  block: {
    en: ["block", "block_size neighbouring slots: the unit in which memory is allocated, shared, cached and freed."],
    zh: ["块", "相邻的 block_size 个槽位：分配、共享、缓存和释放的单位。"],
  },
  slot: {
    en: ["slot", "Room for K and V of one token in every layer. slot = block_id · block_size + position mod block_size."],
    zh: ["槽位", "一个词元在所有层的 K 和 V 的位置。slot = block_id · block_size + position mod block_size。"],
  },
  block_table: {
    en: ["block table", "For each sequence: which physical block holds its logical block 0, 1, 2, …"],
    zh: ["块表", "每个序列一张：它的第 0、1、2……个逻辑块放在哪个物理块里。"],
  },
  ref_count: {
    en: ["ref_count", "How many sequences have the block in their table. At 0 it enters the free queue."],
    zh: ["引用计数", "有多少个序列的块表里有这个块。降到 0 就进入空闲队列。"],
  },
  block_hash: {
    en: ["block_hash", "Fingerprint of a full block and everything before it. A later prompt with the same beginning finds it."],
    zh: ["块哈希", "一个满块连同它之前全部内容的指纹。开头相同的提示词靠它找到这个块。"],
  },
  free_queue: {
    en: ["free queue", "Blocks without an owner. The head is allocated next; cached ones go to the back and live longest."],
    zh: ["空闲队列", "没有持有者的块。队首最先分配；带缓存的排到队尾，存活最久。"],
  },
  prefill: {
    en: ["prefill", "Computing all tokens of the prompt at once, which fills its blocks."],
    zh: ["预填充", "一次算完提示词的所有词元，填满它的块。"],
  },
  decode: {
    en: ["decode", "One step, one token: one new query reads every key before it."],
    zh: ["解码", "一步一个词元：一个新的查询读取它之前的每个键。"],
  },
  waste: {
    en: ["waste", "Reserved slots that hold nothing (internal fragmentation): at most block_size − 1 in each paged sequence."],
    zh: ["浪费", "已预留却空着的槽位（内部碎片）：分页时每个序列至多 block_size − 1 个。"],
  },
  gqa: {
    en: ["grouped-query attention", "Several query heads share one KV head, so the cache is that many times smaller."],
    zh: ["分组查询注意力", "多个查询头共用一个 KV 头，缓存相应缩小同样的倍数。"],
  },
  ttft: {
    en: ["TTFT", "Time to first token, in engine time: all steps from the request to the one that chose its first token."],
    zh: ["TTFT", "首词元延迟（引擎时间）：从请求到达起，到选出第一个词元的那一步为止，各步用时之和。"],
  },
  tpot: {
    en: ["TPOT", "Time per output token after the first, in engine time: the mean of its steps. Pauses between steps are left out."],
    zh: ["TPOT", "首词元之后每个词元的平均用时（引擎时间）。步与步之间的停顿不计算在内。"],
  },
  preempt: {
    en: ["preemption", "No block is free: the newest sequence gives its blocks back and is computed again later."],
    zh: ["抢占", "没有空闲块时，最新的序列归还它的块，之后再重算。"],
  },
  prefix_cache: {
    en: ["prefix cache", "Full blocks of earlier prompts, found by hash. A hit skips their computation."],
    zh: ["前缀缓存", "之前提示词的满块，按哈希查找。命中就不必再算。"],
  },
};
