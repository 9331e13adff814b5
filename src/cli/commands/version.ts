import { programVersion } from '../../platform/program-version.ts';
import { defineCommand, EXIT } from '../command.ts';

export const version = defineCommand({
  name: 'version',
  summary: 'show the version',
  examples: ['millrace version', 'millrace version --json'],
  async run({ out }) {
    const facts = { millrace: programVersion(), node: process.versions.node };
    out.answer(facts, () => [`millrace ${facts.millrace} (Node ${facts.node})`]);
    return EXIT.ok;
  },
});
