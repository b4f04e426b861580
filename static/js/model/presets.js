// Prompts offered when the server names none of its own.

export const PRESETS = [
  "春江潮水连海平，海上明月共潮生。",
  "床前明月光，",
  "空山新雨后，天气晚来秋。",
  "大漠孤烟直，长河落日圆。",
  "Once upon a time, there was a little girl who",
  "The old man went down to the sea and",
];
