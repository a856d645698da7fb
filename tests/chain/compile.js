// Compiles the standard JSON on stdin with the compiler that argv names, and nothing else: no package is needed.
const compiler = require(process.argv[2]);
let input = "";
process.stdin.on("data", (piece) => (input += piece)).on("end", () => {
  process.stdout.write(compiler.cwrap("solidity_compile", "string", ["string", "number", "number"])(input, 0, 0));
});
