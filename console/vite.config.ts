import preact from "@preact/preset-vite";
import { defineConfig } from "vite";

// The page is served by `toolcrib serve` from the folder it is built into; names hold a digest, so they may be cached forever.
export default defineConfig({
  plugins: [preact({ devToolsEnabled: false, prefreshEnabled: false })],
  base: "./",
  resolve: {
    alias: {
      react: "preact/compat",
      "react-dom": "preact/compat",
      "@rjsf/validator-ajv8": new URL("src/parts/unchecked.ts", import.meta.url).pathname,
    },
  },
  build: {
    outDir: "../src/toolcrib/console/page",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    sourcemap: false,
  },
  server: { proxy: { "/v1": "http://127.0.0.1:8000" } },
});
