// Words of the attention panels.

export const en = {
  "matrix.title": "Attention so far",
  "matrix.label": "Causal attention matrix of layer {layer}, head {head}: {n} {n|row|rows}",
  "matrix.axes": "row: query · column: key",
  "matrix.omitted": "hatched: over the byte budget, not captured",
  "matrix.empty": "Each step adds one row: how the newest query read every key before it.",
  "matrix.cell": "{query} read {key}: {weight}",

  "overview.title": "All layers and heads",
  "overview.empty": "One small row for each layer and head. Choose one to see it above.",
  "overview.cell": "Layer {layer}, head {head}",
  "overview.axes": "layer ↓ · head →",

  "candidates.title": "Next token",
  "candidates.empty": "After a step: what the model could have said, and how sure it was.",
  "candidates.chosen": "chosen",
  "candidates.rest": "all others",
};

export const zh = {
  "matrix.title": "至今的注意力",
  "matrix.label": "第 {layer} 层第 {head} 头的因果注意力矩阵：{n} 行",
  "matrix.axes": "行：查询 · 列：键",
  "matrix.omitted": "斜线：超出字节预算，未捕获",
  "matrix.empty": "每一步加一行：最新的查询如何读取它之前的每个键。",
  "matrix.cell": "{query} 读取 {key}：{weight}",

  "overview.title": "所有层与头",
  "overview.empty": "每个层和头一小行。选一个在上面查看。",
  "overview.cell": "第 {layer} 层，第 {head} 头",
  "overview.axes": "层 ↓ · 头 →",

  "candidates.title": "下一个词元",
  "candidates.empty": "每一步之后：模型本可以说什么，有多大把握。",
  "candidates.chosen": "选中",
  "candidates.rest": "其余全部",
};
