// The field's words, each defined in both languages: [term, definition]. The page's terms, the tooltips and the help read this.

/** Groups of the glossary, in the order in which the help shows them. */
export const GROUPS = ["attention", "cache", "memory", "scheduling", "time", "sampling", "distribution", "page"];

const words = (group, entries) => Object.fromEntries(Object.entries(entries).map(([id, [en, zh]]) => [id, { group, en, zh }]));

/** id -> {group, en: [term, definition], zh: [term, definition]} */
export const GLOSSARY = {
  ...words("attention", {
    token: [
      ["token", "A piece of text with a number in the vocabulary: a character, a word, part of a word, or single bytes."],
      ["词元", "词表里有编号的一段文本：一个字、一个词、词的一部分，或者几个字节。"],
    ],
    query: [
      ["query", "The vector with which the token being computed asks. Used once, then dropped."],
      ["查询", "正在计算的词元用来提问的向量。只用一次，用完即弃。"],
    ],
    key: [
      ["key", "The vector by which a token is found by later queries. Kept in the cache, after rotation by its position."],
      ["键", "之后的查询据以找到某个词元的向量。按位置旋转之后存入缓存。"],
    ],
    value: [
      ["value", "What a token hands over when a query reads it, in proportion to the attention weight."],
      ["值", "词元被查询读取时交出的内容，按注意力权重加权。"],
    ],
    attention_weight: [
      ["attention weight", "softmax of the scaled products of one query with every key it may see. The weights of a row add up to 1."],
      ["注意力权重", "一个查询与它能看到的每个键的内积，缩放后取 softmax。一行权重之和为 1。"],
    ],
    causal_mask: [
      ["causal mask", "A token sees itself and what came before it, never what comes later. Hence the triangle, and hence a cache works at all."],
      ["因果掩码", "词元只看到自己和之前的词元，看不到之后的。矩阵因此是三角形，缓存也因此可行。"],
    ],
    rope: [
      ["RoPE", "Rotary position embedding: query and key are rotated by an angle that grows with their position. Keys are cached after it."],
      ["RoPE", "旋转位置编码：查询和键按位置旋转，位置越靠后角度越大。键在旋转之后存入缓存。"],
    ],
    mha: [
      ["MHA", "Multi-head attention: every query head has a KV head of its own."],
      ["MHA", "多头注意力：每个查询头有自己的 KV 头。"],
    ],
    gqa: [
      ["grouped-query attention", "GQA: several query heads share one KV head, so the cache is that many times smaller."],
      ["分组查询注意力", "GQA：多个查询头共用一个 KV 头，缓存相应缩小同样的倍数。"],
    ],
    mqa: [
      ["MQA", "Multi-query attention: all query heads share a single KV head."],
      ["MQA", "多查询注意力：所有查询头共用一个 KV 头。"],
    ],
    mla: [
      ["MLA", "Multi-head latent attention: one compressed vector for each token is cached, and keys and values are expanded from it."],
      ["MLA", "多头潜在注意力：每个词元只缓存一个压缩向量，键和值由它展开。"],
    ],
    sliding_window: [
      ["sliding window", "A layer whose queries see only the last so many tokens. Blocks that every layer has left behind can be freed."],
      ["滑动窗口", "这一层的查询只看最近若干个词元。所有层都不再看的块可以释放。"],
    ],
    attention_sink: [
      ["attention sink", "Weight that has nowhere better to go gathers on the first tokens (or on a learned extra entry of the softmax)."],
      ["注意力汇点", "无处可去的权重聚集在开头几个词元上（或 softmax 中一个学到的附加项上）。"],
    ],
  }),
  ...words("cache", {
    kv_cache: [
      ["KV cache", "Keys and values of tokens already computed, kept so that no step computes them again."],
      ["KV 缓存", "已算过的词元的键和值，留下来，之后的每一步都不必重算。"],
    ],
    block: [
      ["block", "block_size neighbouring slots: the unit in which memory is allocated, shared, cached and freed."],
      ["块", "相邻的 block_size 个槽位：分配、共享、缓存和释放的单位。"],
    ],
    block_size: [
      ["block_size", "How many tokens a block holds. Small blocks waste less; large ones need shorter tables and less bookkeeping."],
      ["块大小", "一个块容纳多少个词元。块小则浪费少；块大则块表短、管理开销小。"],
    ],
    block_id: [
      ["block_id", "The number of a physical block in the pool, from 0. It says where, not whose."],
      ["块号", "块池里物理块的编号，从 0 起。它说明在哪里，不说明归谁。"],
    ],
    block_pool: [
      ["BlockPool", "All physical blocks of the cache, allocated once at the start. Sequences borrow them."],
      ["块池", "缓存的全部物理块，启动时一次分配好，由各序列借用。"],
    ],
    slot: [
      ["slot", "Room for K and V of one token in every layer. slot = block_id · block_size + position mod block_size."],
      ["槽位", "一个词元在所有层的 K 和 V 的位置。slot = block_id · block_size + position mod block_size。"],
    ],
    slot_mapping: [
      ["slot_mapping", "For each token of a step, the slot into which its K and V are written."],
      ["槽位映射", "一步里每个词元的 K 和 V 写入哪个槽位。"],
    ],
    block_table: [
      ["block table", "For each sequence: which physical block holds its logical block 0, 1, 2, …"],
      ["块表", "每个序列一张：它的第 0、1、2……个逻辑块放在哪个物理块里。"],
    ],
    ref_count: [
      ["ref_count", "How many sequences have the block in their table. At 0 it enters the free queue."],
      ["引用计数", "有多少个序列的块表里有这个块。降到 0 就进入空闲队列。"],
    ],
    block_hash: [
      ["block_hash", "Fingerprint of a full block and everything before it. A later prompt with the same beginning finds it."],
      ["块哈希", "一个满块连同它之前全部内容的指纹。开头相同的提示词靠它找到这个块。"],
    ],
    block_group: [
      ["block group", "Layers that keep the same keys. Each group has its own block pool; a sequence has a table in each. Windowed ones let blocks go."],
      ["块组", "保留相同键的那些层，共用一个块池；每个序列在每组各有一张块表。有窗口的层会释放块，完整注意力的层全部保留。"],
    ],
    free_queue: [
      ["free queue", "Blocks without an owner. The head is allocated next; cached ones go to the back and live longest."],
      ["空闲队列", "没有持有者的块。队首最先分配；带缓存的排到队尾，存活最久。"],
    ],
    prefix_cache: [
      ["prefix cache", "Full blocks of earlier prompts, found by hash. A hit skips their computation."],
      ["前缀缓存", "之前提示词的满块，按哈希查找。命中就不必再算。"],
    ],
    prefix_hit: [
      ["prefix-cache hit", "Leading full blocks of a prompt that are in the pool already. At least its last token is always computed."],
      ["前缀命中", "提示词开头的若干满块已在池中。至少最后一个词元总要计算。"],
    ],
    evict: [
      ["eviction", "A cached block is needed for something else: its hash is removed, then it is allocated. Free is not yet evicted."],
      ["逐出", "缓存着内容的块要另作他用：先去掉哈希，再分配出去。空闲不等于已逐出。"],
    ],
    fork: [
      ["fork", "A second sequence continues from the same tokens. It shares every block of the first, the partial one too."],
      ["分叉", "第二个序列从同样的词元继续，共享前者的每一个块，包括未满的块。"],
    ],
    copy_on_write: [
      ["copy-on-write", "A shared block is copied when one of its owners first writes to it. The last owner writes in place."],
      ["写时复制", "共享块的某个持有者第一次写入时才复制。最后一个持有者原地写入。"],
    ],
    kv_transfer: [
      ["KV transfer", "Moving computed keys and values to another device or instance instead of computing them there."],
      ["KV 传输", "把算好的键和值搬到另一设备或实例，而不在那里重算。"],
    ],
  }),
  ...words("memory", {
    reservation: [
      ["reservation", "Slots set aside for a sequence before it fills them: a few in a paged cache, max_model_len in a contiguous one."],
      ["预留", "序列填满之前就划给它的槽位：分页时只有几个，连续分配时是 max_model_len 个。"],
    ],
    waste: [
      ["waste", "Reserved slots that hold nothing: at most block_size − 1 in each paged sequence."],
      ["浪费", "已预留却空着的槽位：分页时每个序列至多 block_size − 1 个。"],
    ],
    internal_fragmentation: [
      ["internal fragmentation", "Unused room inside what was allocated: the empty end of a last block, or of a contiguous reservation."],
      ["内部碎片", "已分配空间内部没用到的部分：末块的空尾，或连续预留的空尾。"],
    ],
    external_fragmentation: [
      ["external fragmentation", "Free room in pieces too small for a contiguous request. With blocks of one size there is none."],
      ["外部碎片", "空闲空间零散，放不下一个连续请求。块大小统一时不存在。"],
    ],
    paged: [
      ["paged", "Memory in blocks of one size, allocated as a sequence grows, anywhere in the pool."],
      ["分页", "内存按统一大小的块划分，随序列增长分配，可在池中任意位置。"],
    ],
    contiguous: [
      ["contiguous", "One stretch of max_model_len slots for each sequence, reserved before its first token."],
      ["连续", "每个序列在第一个词元之前就预留 max_model_len 个相连的槽位。"],
    ],
  }),
  ...words("scheduling", {
    request: [
      ["request", "What a client asks for: a prompt and how to sample. It becomes one or more sequences."],
      ["请求", "客户端提出的：一段提示词和采样方式。它成为一个或多个序列。"],
    ],
    sequence: [
      ["sequence", "The tokens of one continuation, prompt included, with a block table of its own."],
      ["序列", "一条续写的全部词元（含提示词），有自己的块表。"],
    ],
    prefill: [
      ["prefill", "Computing the tokens of the prompt, many in one step, which fills its blocks."],
      ["预填充", "一步计算提示词的许多词元，填满它的块。"],
    ],
    decode: [
      ["decode", "One step, one token: one new query reads every key before it."],
      ["解码", "一步一个词元：一个新的查询读取它之前的每个键。"],
    ],
    chunked_prefill: [
      ["chunked prefill", "A long prompt is computed in pieces over several steps, so that others need not wait for it."],
      ["分块预填充", "长提示词分几步算完，其他序列不必干等。"],
    ],
    mixed_step: [
      ["mixed step", "A step that computes prompt tokens of some sequences and next tokens of others together."],
      ["混合步", "同一步里既算一些序列的提示词，又算另一些序列的下一个词元。"],
    ],
    continuous_batching: [
      ["continuous batching", "The batch is put together anew at every step: whoever finishes leaves, whoever waits may enter."],
      ["连续批处理", "每一步重新组批：算完的离开，等待的可以进来。"],
    ],
    token_budget: [
      ["token budget", "max_num_batched_tokens: how many tokens one step may compute over all sequences."],
      ["词元预算", "max_num_batched_tokens：一步最多计算多少个词元（所有序列合计）。"],
    ],
    max_num_seqs: [
      ["max_num_seqs", "How many sequences one step may contain."],
      ["最大序列数", "一步最多包含多少个序列（max_num_seqs）。"],
    ],
    num_computed_tokens: [
      ["num_computed_tokens", "Tokens of a sequence whose K and V are in the cache. The next step begins there."],
      ["已计算词元数", "序列中 K 和 V 已在缓存里的词元数。下一步从这里开始。"],
    ],
    num_scheduled_tokens: [
      ["num_scheduled_tokens", "Tokens of a sequence that this step computes."],
      ["本步词元数", "这一步为某序列计算的词元数。"],
    ],
    num_cached_tokens: [
      ["num_cached_tokens", "Prompt tokens that were found in the prefix cache and are not computed."],
      ["缓存命中词元数", "在前缀缓存中找到、无须计算的提示词词元数。"],
    ],
    context_len: [
      ["context_len", "How many keys a query may read: all tokens up to and including its own."],
      ["上下文长度", "一个查询可读多少个键：到它自己为止的全部词元。"],
    ],
    waiting: [
      ["waiting", "Submitted, not yet admitted: no blocks, in order of arrival or priority."],
      ["等待", "已提交、未接纳：没有块，按到达次序或优先级排队。"],
    ],
    running: [
      ["running", "Admitted: it has blocks and takes part in steps."],
      ["运行", "已接纳：有块，参与每一步。"],
    ],
    finished: [
      ["finished", "It reached its last token; its blocks go back to the pool, cached content stays findable."],
      ["完成", "已到最后一个词元；块归还块池，缓存的内容仍可命中。"],
    ],
    preempt: [
      ["preemption", "No block is free: the newest sequence gives its blocks back and is computed again later."],
      ["抢占", "没有空闲块时，最新的序列归还它的块，之后再重算。"],
    ],
    swap: [
      ["swap", "The other way to preempt: blocks are copied to CPU memory and copied back later, instead of computed again."],
      ["换出", "另一种抢占方式：把块复制到 CPU 内存，之后再复制回来，不必重算。"],
    ],
  }),
  ...words("time", {
    ttft: [
      ["TTFT", "Time to first token, in engine time: all steps from the request to the one that chose its first token."],
      ["TTFT", "首词元延迟（引擎时间）：从请求到达起，到选出第一个词元的那一步为止，各步用时之和。"],
    ],
    tpot: [
      ["TPOT", "Time per output token after the first, in engine time: the mean of its steps. Pauses between steps are left out."],
      ["TPOT", "首词元之后每个词元的平均用时（引擎时间）。步与步之间的停顿不计算在内。"],
    ],
    itl: [
      ["ITL", "Inter-token latency: the time between two neighbouring output tokens of a sequence."],
      ["ITL", "词元间延迟：一个序列相邻两个输出词元之间的时间。"],
    ],
    throughput: [
      ["throughput", "Tokens per second over all sequences."],
      ["吞吐量", "所有序列合计每秒产出的词元数。"],
    ],
    goodput: [
      ["goodput", "Requests per second that meet their latency objectives (TTFT and TPOT), for example per GPU."],
      ["有效吞吐", "每秒满足延迟目标（TTFT 与 TPOT）的请求数，常按每张 GPU 计。"],
    ],
    flops: [
      ["FLOPs", "Multiplications and additions of a step. A multiply-add counts as two."],
      ["FLOPs", "一步中乘法和加法的次数。一次乘加算两次。"],
    ],
    arithmetic_intensity: [
      ["arithmetic intensity", "FLOPs for each byte moved. Decode reads every weight for one token, so it is low; prefill is high."],
      ["算术强度", "每搬运一字节做多少次运算。解码为一个词元读遍全部权重，所以低；预填充高。"],
    ],
    roofline: [
      ["roofline", "The speed that a machine allows at an arithmetic intensity: bandwidth limits on the left, arithmetic on the right."],
      ["屋顶线", "机器在某一算术强度下允许的速度：左边受带宽限制，右边受算力限制。"],
    ],
  }),
  ...words("sampling", {
    logprob: [
      ["logprob", "Natural logarithm of the probability that the model gave a token."],
      ["对数概率", "模型给某词元的概率的自然对数。"],
    ],
    greedy: [
      ["greedy", "Always the most probable token (temperature 0). The same input then gives the same output."],
      ["贪心", "总取概率最大的词元（温度为 0）。输入相同则输出相同。"],
    ],
    temperature: [
      ["temperature", "Divides the logits before softmax: below 1 sharpens, above 1 flattens the choice."],
      ["温度", "softmax 之前除以它：小于 1 更集中，大于 1 更分散。"],
    ],
    top_k: [
      ["top-k", "Only the k most probable tokens may be chosen. 0 turns it off."],
      ["top-k", "只在概率最大的 k 个词元里选。0 表示不用。"],
    ],
    top_p: [
      ["top-p", "Only the smallest set of tokens whose probabilities reach p may be chosen."],
      ["top-p", "只在概率之和达到 p 的最小集合里选。"],
    ],
  }),
  ...words("distribution", {
    pd_separation: [
      ["PD separation", "Prefill and decode on different instances, so that long prompts do not delay running sequences. KV moves between them."],
      ["PD 分离", "预填充和解码放在不同实例上，长提示词不拖慢正在运行的序列。KV 在两者之间传输。"],
    ],
    prefill_instance: [
      ["prefill instance", "An instance that only computes prompts and hands their KV on."],
      ["预填充实例", "只计算提示词、然后交出 KV 的实例。"],
    ],
    decode_instance: [
      ["decode instance", "An instance that receives the KV of prompts and continues them."],
      ["解码实例", "接收提示词的 KV 并继续生成的实例。"],
    ],
    intra_op: [
      ["intra-op parallelism", "Tensor parallelism: one layer is split over devices, which shortens a step."],
      ["算子内并行", "张量并行：把一层拆到多个设备上，缩短单步时间。"],
    ],
    inter_op: [
      ["inter-op parallelism", "Pipeline parallelism: layers are spread over devices, which lets several batches be under way."],
      ["算子间并行", "流水线并行：各层分布在不同设备上，多个批次可同时进行。"],
    ],
  }),
  ...words("page", {
    record: [
      ["record", "One entry of the log: a submission or a step, with everything that it changed."],
      ["记录", "日志的一项：一次提交或一步，以及它改变的一切。"],
    ],
    step: [
      ["step", "One forward pass of the model over the tokens that the scheduler chose."],
      ["步", "模型对调度器选定的词元做一次前向计算。"],
    ],
    trace: [
      ["trace", "The log as a file (.kvtrace): replaying it shows again exactly what was shown live."],
      ["trace 文件", "日志存成的文件（.kvtrace）：回放时与实时所见完全相同。"],
    ],
    provenance: [
      ["provenance", "From an attention weight to its key, slot, block, block table, co-owners and the record that wrote it; and back."],
      ["来历", "从注意力权重到它的键、槽位、块、块表、共享者和写入它的记录；也可反查。"],
    ],
    capture: [
      ["capture", "Arrays (Q, K, V, attention) that the engine kept of a step. A byte budget limits them; nothing is made up for what is missing."],
      ["捕获", "引擎为一步留下的数组（Q、K、V、注意力），受字节预算限制；缺的部分绝不编造。"],
    ],
  }),
};

/** Entries whose term or definition, in either language, contains every word of `query`. */
export function findTerms(query) {
  const wanted = query.toLowerCase().split(/\s+/).filter(Boolean);
  return Object.entries(GLOSSARY).filter(([id, entry]) => {
    const text = [id, ...entry.en, ...entry.zh].join("\n").toLowerCase();
    return wanted.every((word) => text.includes(word));
  });
}
