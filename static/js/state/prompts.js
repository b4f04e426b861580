// Prompts offered one by one; those with settings of their own come from the server (`presets` of /api/model).

export const PRESETS = [
  "春江潮水连海平，海上明月共潮生。",
  "床前明月光，",
  "空山新雨后，天气晚来秋。",
  "Once upon a time, there was a little girl who",
];
