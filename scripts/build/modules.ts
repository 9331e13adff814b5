/** Compiles each module of src/ to a module of dist/ that runs on Node 20. */
import { join } from 'node:path';
import { build } from 'rolldown';
import { THIRD_PARTY } from './third-party.ts';

const ENTRIES = ['index.ts', 'client/index.ts', 'testing/index.ts', 'cli/main.ts', 'engine/work/heartbeat-thread.ts'];

/** Calls that Node 20 lacks, and the functions in newer-than-node-20.ts that replace them. */
const REPLACED = {
  'Map.groupBy': 'groupIntoMap',
  'Object.groupBy': 'groupIntoObject',
  'Promise.withResolvers': 'withResolvers',
  'URL.parse': 'parseUrl',
};

export async function compileModules({ root, dist }: { root: string; dist: string }): Promise<void> {
  const replacements = join(import.meta.dirname, 'newer-than-node-20.ts');
  await build({
    cwd: root,
    input: ENTRIES.map((entry) => join('src', entry)),
    platform: 'node',
    external: /^[^./]/,
    transform: {
      target: 'node20.18',
      inject: Object.fromEntries(Object.entries(REPLACED).map(([call, name]) => [call, [replacements, name]])),
    },
    output: {
      dir: dist,
      format: 'esm',
      preserveModules: true,
      preserveModulesRoot: join(root, 'src'),
      entryFileNames: '[name].js',
      paths: (name) => (Object.hasOwn(THIRD_PARTY, name) ? `#third-party/${name}` : name),
    },
  });
}
