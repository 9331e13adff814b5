/**
 * Bundles the modules of src/ for Node 20: one file for each entry, and chunks for what entries share. With a file for each module,
 * `import 'millrace'` took 150 to 170 ms and 167 to 203 ms of processor time; with chunks it takes 52 to 56 and 60 (three runs in turn).
 */
import { join, relative } from 'node:path';
import { build, type Plugin } from 'rolldown';
import { THIRD_PARTY } from './third-party.ts';

const THREADS = ['engine/work/heartbeat-thread', 'handlers/hash-thread', 'objects/folder-thread'];
const ENTRIES = ['index', 'client/index', 'testing/index', 'cli/main', ...THREADS];

/** Calls that Node 20 lacks, and the functions in newer-than-node-20.ts that replace them. */
const REPLACED = {
  'Map.groupBy': 'groupIntoMap',
  'Object.groupBy': 'groupIntoObject',
  'Promise.withResolvers': 'withResolvers',
  'URL.parse': 'parseUrl',
};

const PLACE = 'place-of-dist';
const THIS_FILE = /\bimport\.meta\.url\b/g;
const OTHER_META = /\bimport\.meta\.(?!url\b)/;

/** Modules find their files relative to themselves. In a chunk, such a path starts where the module would be without bundling. */
const placesOfModules = (sources: string): Plugin => ({
  name: 'places-of-modules',
  resolveId: (id) => (id === PLACE ? id : null),
  load: (id) => (id === PLACE ? "export const dist = new URL('../', import.meta.url);" : null),
  transform(code, id) {
    if (!id.startsWith(sources) || !code.includes('import.meta')) return null;
    if (OTHER_META.test(code)) throw new Error(`${id}: the build knows import.meta.url only.`);
    const path = relative(sources, id).replace(/\.ts$/, '.js');
    return `import { dist as distFolder } from '${PLACE}';\n${code.replaceAll(THIS_FILE, `new URL('${path}', distFolder).href`)}`;
  },
});

export async function compileModules({ root, dist }: { root: string; dist: string }): Promise<void> {
  const sources = join(root, 'src/');
  const replacements = join(import.meta.dirname, 'newer-than-node-20.ts');
  await build({
    cwd: root,
    input: Object.fromEntries(ENTRIES.map((entry) => [entry, join('src', `${entry}.ts`)])),
    platform: 'node',
    external: (id) => id !== PLACE && /^[^./]/.test(id),
    plugins: [placesOfModules(sources)],
    transform: {
      target: 'node20.18',
      inject: Object.fromEntries(Object.entries(REPLACED).map(([call, name]) => [call, [replacements, name]])),
    },
    output: {
      dir: dist,
      format: 'esm',
      entryFileNames: '[name].js',
      chunkFileNames: 'chunks/[name].js',
      codeSplitting: { groups: [{ name: PLACE, test: PLACE }] },
      paths: (name) => (Object.hasOwn(THIRD_PARTY, name) ? `#third-party/${name}` : name),
    },
  });
}
