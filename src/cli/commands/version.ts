import { readFileSync } from 'node:fs';
import { defineCommand, EXIT } from '../command.ts';

export const version = defineCommand({
  name: 'version',
  summary: 'say which version this is',
  takes: '',
  minArgs: 0,
  maxArgs: 0,
  options: {},
  examples: ['millrace version', 'millrace version --json'],
  async run({ out }) {
    const manifest: { version: string } = JSON.parse(
      readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'),
    );
    const facts = { millrace: manifest.version, node: process.versions.node };
    out.answer(facts, () => [`millrace ${facts.millrace} (Node ${facts.node})`]);
    return EXIT.ok;
  },
});
