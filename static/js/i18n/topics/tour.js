// Words of the tour.

export const en = {
  "tour.start": "Take the tour",
  "tour.progress": "Stop {i} of {n}",
  "tour.skip": "Skip the tour",
  "tour.back": "Back",
  "tour.next": "Next",
  "tour.end": "Finish",

  "tour.prompt": "Give the model a prompt",
  "tour.prompt.text": "A real model runs on the server. Everything on this page is read from it, step by step.",
  "tour.prompt.task": "Choose a prompt, then press Prefill below.",
  "tour.prompt.done": "All its tokens were computed at once; each left a key and a value.",

  "tour.attention": "One query reads every key",
  "tour.attention.text": "Each column is a token with its key K and value V. The bars say how much the query Q reads from each.",
  "tour.attention.task": "Press Step: the model computes one more token.",
  "tour.attention.done": "Only the new token was computed. The keys and values before it were read from the cache.",

  "tour.pool": "Where keys and values live",
  "tour.pool.text": "The pool is the cache's memory: blocks of a few slots. A sequence borrows blocks as it grows, wherever they are free.",
  "tour.pool.task": "Point at a block, or move to it with the Tab key.",
  "tour.pool.done": "Its owners, its hash and what its slots hold: all of it comes from the log.",

  "tour.provenance": "Follow one key",
  "tour.provenance.text": "This line leads from an attention weight to its key, slot, block, block table and the record that wrote it.",
  "tour.provenance.task": "Click a token or a column of the strip.",
  "tour.provenance.done": "Each link can be read from left to right; “record” takes you to where it was written.",

  "tour.time": "Nothing is lost",
  "tour.time.text": "The line holds every record of the run. Looking back changes nothing; the model waits where it was.",
  "tour.time.task": "Drag the handle to the left, or press ←.",
  "tour.time.done": "The whole page shows that moment. → or “Back to live” brings you back.",
};

export const zh = {
  "tour.start": "开始导览",
  "tour.progress": "第 {i} 站，共 {n} 站",
  "tour.skip": "跳过导览",
  "tour.back": "上一站",
  "tour.next": "下一站",
  "tour.end": "完成",

  "tour.prompt": "给模型一段提示词",
  "tour.prompt.text": "服务器上跑着一个真实的模型，这一页的一切都逐步从它读出。",
  "tour.prompt.task": "选一段提示词，再按下方的“预填充”。",
  "tour.prompt.done": "所有词元一次算完，各留下一个键和一个值。",

  "tour.attention": "一个查询读遍每个键",
  "tour.attention.text": "每一列是一个词元和它的键 K、值 V。柱高表示查询 Q 从每一列读取多少。",
  "tour.attention.task": "按“单步”：模型再算一个词元。",
  "tour.attention.done": "只计算了新词元，之前的键和值都从缓存读取。",

  "tour.pool": "键和值放在哪里",
  "tour.pool.text": "块池就是缓存的内存：每块几个槽位。序列变长时，哪里有空闲块就借哪里。",
  "tour.pool.task": "指向一个块，或用 Tab 键移过去。",
  "tour.pool.done": "它的持有者、哈希、每个槽位的内容，全都来自日志。",

  "tour.provenance": "追踪一个键",
  "tour.provenance.text": "这一行从注意力权重出发，依次到键、槽位、块、块表和写入它的记录。",
  "tour.provenance.task": "点一个词元，或词元条里的一列。",
  "tour.provenance.done": "从左到右逐环阅读；点“记录”可去到写入它的那一刻。",

  "tour.time": "什么都不会丢",
  "tour.time.text": "这条线上是运行的每条记录。回看不会改变什么，模型停在原处等待。",
  "tour.time.task": "向左拖动滑块，或按 ←。",
  "tour.time.done": "整个页面显示那一刻。按 → 或“回到实时”即可返回。",
};
