// Web APIs that the oldest supported browsers lack are errors (browserslist in package.json). What JavaScript itself
// has there is the type checker's to hold: "lib" in jsconfig.json.
import compat from "eslint-plugin-compat";

export default [
  { ignores: ["static/vendor/**", "static/js/core/schema.js"] },
  {
    ...compat.configs["flat/recommended"],
    files: ["static/**/*.js"],
    languageOptions: { ecmaVersion: "latest", sourceType: "module" },
    linterOptions: { reportUnusedDisableDirectives: "off" },
  },
];
