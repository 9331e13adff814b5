#!/usr/bin/env node
// Runs the sources where they are (a clone), and what was built of them otherwise (the package).
import './guard-prototypes.js';
import { existsSync } from 'node:fs';

const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 22 || (major === 22 && minor < 18)) {
  console.error(
    `millrace needs Node 22.18 or newer; this is ${process.versions.node}. Inside a clone, use "npx millrace": the lockfile carries a newer Node.`,
  );
  process.exit(1);
}
const sources = new URL('../src/cli/main.ts', import.meta.url);
const { main } = await import(existsSync(sources) ? sources.href : new URL('../dist/cli/main.js', import.meta.url).href);
process.exitCode = await main(process.argv.slice(2));
