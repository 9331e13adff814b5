/**
 * Bundles the libraries of the HTTP server, of webhooks, of object storage and of the configuration into dist/third-party. As dependencies they would
 * add 27 MB to an installation. Modules name them `#third-party/<library>`, which package.json maps to these files.
 */
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { build, type Plugin } from 'rolldown';

/** The libraries, and what the modules import of each. */
export const THIRD_PARTY: Readonly<Record<string, string>> = {
  '@aws-sdk/client-s3': [
    'AbortMultipartUploadCommand',
    'CompleteMultipartUploadCommand',
    'CreateMultipartUploadCommand',
    'DeleteObjectCommand',
    'GetObjectCommand',
    'HeadBucketCommand',
    'HeadObjectCommand',
    'ListMultipartUploadsCommand',
    'ListObjectsV2Command',
    'PutObjectCommand',
    'S3Client',
    'UploadPartCommand',
    'UploadPartCopyCommand',
  ].join(', '),
  '@fastify/ajv-compiler': 'default',
  '@fastify/cors': 'default',
  '@fastify/fast-json-stringify-compiler': 'SerializerSelector',
  '@fastify/swagger': 'default',
  '@opentelemetry/api': 'context, ROOT_CONTEXT, SpanKind, SpanStatusCode, TraceFlags, trace',
  '@opentelemetry/exporter-trace-otlp-http': 'OTLPTraceExporter',
  '@opentelemetry/resources': 'resourceFromAttributes',
  '@opentelemetry/sdk-trace-node':
    'AlwaysOnSampler, BasicTracerProvider, BatchSpanProcessor, NodeTracerProvider, ParentBasedSampler, TraceIdRatioBasedSampler',
  croner: 'Cron',
  fastify: 'default',
  pino: 'pino',
  'prom-client': 'Counter, Gauge, Histogram, Registry, collectDefaultMetrics',
  rfc6902: 'applyPatch',
  'smol-toml': 'parse, TomlError',
  typebox: 'Type',
  undici: 'Client',
};

const PREFIX = 'third-party:';

/** One entry for each library. It names the exports, because CommonJS modules do not declare theirs. */
const entries: Plugin = {
  name: 'third-party',
  resolveId: (id) => (id.startsWith(PREFIX) ? id : null),
  load: (id) => (id.startsWith(PREFIX) ? `export { ${THIRD_PARTY[id.slice(PREFIX.length)]} } from '${id.slice(PREFIX.length)}';` : null),
};

export async function bundleThirdParty({ root, dist }: { root: string; dist: string }): Promise<void> {
  const { output } = await build({
    cwd: root,
    input: Object.fromEntries(Object.keys(THIRD_PARTY).map((name) => [name, `${PREFIX}${name}`])),
    platform: 'node',
    plugins: [entries],
    output: { dir: join(dist, 'third-party'), format: 'esm', minify: true, entryFileNames: '[name].js', chunkFileNames: '[name].js' },
  });
  const modules = output.flatMap((file) => (file.type === 'chunk' ? file.moduleIds : []));
  writeFileSync(join(dist, 'third-party/LICENSES.txt'), licencesOf(modules));
}

/** The name, version and licence of each package that a module is from. */
function licencesOf(modules: readonly string[]): string {
  const folders = new Set(modules.filter((path) => path.includes('/node_modules/')).map(packageFolder));
  return [...folders].map(licenceOf).sort().join('\n');
}

function packageFolder(path: string): string {
  let folder = dirname(path);
  // Folders below a package may have a package.json that only sets the type of its modules.
  while (!existsSync(join(folder, 'package.json')) || manifestOf(folder).version === undefined) folder = dirname(folder);
  return folder;
}

function licenceOf(folder: string): string {
  const { name, version, license } = manifestOf(folder);
  const [file] = globSync('{licen[cs]e,LICEN[CS]E,copying,COPYING}*', { cwd: folder });
  const text = file === undefined ? `Licence: ${license}\n` : readFileSync(join(folder, file), 'utf8');
  return `${name} ${version}\n\n${text.trim()}\n\n${'-'.repeat(80)}\n`;
}

function manifestOf(folder: string): { name: string; version?: string; license?: string } {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
}
