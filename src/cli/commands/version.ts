import { programVersion } from '../../platform/program-version.ts';
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
    const facts = { millrace: programVersion(), node: process.versions.node };
    out.answer(facts, () => [`millrace ${facts.millrace} (Node ${facts.node})`]);
    return EXIT.ok;
  },
});
