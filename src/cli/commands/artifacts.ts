import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { rename, rm, stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { type Artifact, DEFAULT_CONTENT_TYPE, readChecksum } from '../../core/artifact.ts';
import { AppError } from '../../core/errors.ts';
import { OPERATOR } from '../../core/governance/actor.ts';
import { wholeOrg } from '../../core/owner.ts';
import type { Engine } from '../../engine/engine.ts';
import { linkArtifact } from '../../services/artifacts/link-artifact.ts';
import { listJobArtifacts, openContent, readArtifact } from '../../services/artifacts/read-artifacts.ts';
import { uploadArtifact } from '../../services/artifacts/upload-artifact.ts';
import { byteProgress, sizeText } from '../byte-progress.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { settingsOf } from '../connection.ts';
import { addressOf } from '../operator-client.ts';
import { readJobId } from '../option-values.ts';
import { chosenOrg, ONE_ORG_OPTION } from '../org-choice.ts';
import { textFacts, textTable } from '../text-table.ts';
import { UsageError } from '../usage-error.ts';
import { withArtifacts } from '../with-artifacts.ts';

const ONE_ARG = { minArgs: 1, maxArgs: 1 } as const;
const PAGE = 1_000;

const requesterFor = (reason: string | undefined) => ({ actor: OPERATOR, requestId: null, reason: reason ?? null });
const REASON = { type: 'string', value: 'TEXT', help: 'the reason, for the audit trail' } as const;

const PUT_OPTIONS = {
  ...ONE_ORG_OPTION,
  name: { type: 'string', value: 'NAME', help: 'the name of the artifact; default: the name of the file' },
  'content-type': { type: 'string', value: 'TYPE', help: `the media type; default: ${DEFAULT_CONTENT_TYPE}` },
  sha256: { type: 'string', value: 'HEX', help: 'the checksum that the bytes must have; otherwise nothing is stored' },
  import: { type: 'boolean', help: 'the file is the input of an import; needs --sha256' },
  reason: REASON,
} as const;

export const artifactsPut = defineCommand({
  name: 'artifacts put',
  summary: 'store a file as an artifact of an org',
  takes: 'FILE',
  ...ONE_ARG,
  options: PUT_OPTIONS,
  details: 'FILE "-" reads from stdin. The file goes to the object store of the configuration, and its SHA-256 checksum is stored with it.',
  examples: [
    'millrace artifacts put days.csv --content-type text/csv',
    'millrace artifacts put days.csv --import --sha256 $(sha256sum days.csv | cut -d" " -f1) --org acme --json',
  ],
  async run(invocation: Invocation<typeof PUT_OPTIONS>) {
    const { values, args, out } = invocation;
    const file = args[0] as string;
    if (values.import === true && values.sha256 === undefined) {
      throw new UsageError(
        '--import needs --sha256: the input of an import is stored with a checksum that its sender computed.',
        'artifacts put',
      );
    }
    const expected = values.sha256 === undefined ? undefined : { sha256: readChecksum(values.sha256, 'sha256'), field: '--sha256' };
    const total = file === '-' ? null : await sizeOf(file);
    const artifact = await withArtifacts(invocation, async (engine) => {
      const org = await chosenOrg(engine, values);
      const progress = byteProgress(out, 'Stored', total);
      const source = (file === '-' ? process.stdin : createReadStream(file)).on('error', (error) => progress.destroy(error)).pipe(progress);
      return uploadArtifact(engine, {
        ...wholeOrg(org.id),
        name: values.name ?? (file === '-' ? 'artifact' : basename(file)),
        contentType: values['content-type'] ?? DEFAULT_CONTENT_TYPE,
        purpose: values.import === true ? 'import' : null,
        source,
        expected,
        requester: requesterFor(values.reason),
      });
    });
    out.answer({ artifact }, () => factsOf(artifact));
    return EXIT.ok;
  },
});

async function sizeOf(file: string): Promise<number> {
  const stats = await stat(file).catch((cause: unknown) => {
    throw new UsageError(`The file ${file} cannot be read: ${cause instanceof Error ? cause.message : cause}.`, 'artifacts put');
  });
  if (stats.isDirectory()) throw new UsageError(`${file} is a folder. Name a file.`, 'artifacts put');
  return stats.size;
}

export const artifactsList = defineCommand({
  name: 'artifacts list',
  summary: 'list the artifacts of a job',
  takes: 'JOB',
  ...ONE_ARG,
  options: ONE_ORG_OPTION,
  examples: ['millrace artifacts list 3f2b8c1e-5d4a-4f6b-9c7d-8e9f0a1b2c3d', 'millrace artifacts list JOB --org acme --json'],
  async run(invocation: Invocation<typeof ONE_ORG_OPTION>) {
    const jobId = readJobId(invocation.args[0]);
    const artifacts = await withArtifacts(invocation, async (engine) => {
      const org = await chosenOrg(engine, invocation.values);
      return allOf(engine, { orgId: org.id, jobId });
    });
    const head = ['ARTIFACT', 'NAME', 'SIZE', 'TYPE', 'CREATED', 'EXPIRES'];
    const rows = artifacts.map((each) => [
      ...[each.id, each.name, sizeText(each.size), each.contentType],
      ...[each.createdAt.toISOString(), each.expiresAt.toISOString()],
    ]);
    invocation.out.answer({ artifacts }, () => (rows.length === 0 ? ['The job has no artifacts.'] : textTable(head, rows)));
    return EXIT.ok;
  },
});

async function allOf(engine: Engine, { orgId, jobId }: { orgId: string; jobId: string }): Promise<Artifact[]> {
  const artifacts: Artifact[] = [];
  for (let cursor: string | undefined; ; ) {
    const page = await listJobArtifacts(engine, { ...wholeOrg(orgId), jobId, limit: PAGE, cursor });
    if (page === null) throw new AppError('NOT_FOUND', { message: `The org has no job ${jobId}. Choose its org with --org.` });
    artifacts.push(...page.artifacts);
    if (page.nextCursor === null) return artifacts;
    cursor = page.nextCursor;
  }
}

const GET_OPTIONS = {
  ...ONE_ORG_OPTION,
  output: { type: 'string', short: 'o', value: 'FILE', help: 'the file to write; default: stdout' },
} as const;

export const artifactsGet = defineCommand({
  name: 'artifacts get',
  summary: 'read the bytes of an artifact, or with --json what is known about it',
  takes: 'ID',
  ...ONE_ARG,
  options: GET_OPTIONS,
  details: 'Checks the SHA-256 checksum. A file appears only when all of its bytes are there and right.',
  examples: ['millrace artifacts get ID -o days.csv', 'millrace artifacts get ID | head', 'millrace artifacts get ID --json'],
  async run(invocation: Invocation<typeof GET_OPTIONS>) {
    const { values, args, out } = invocation;
    const { output } = values;
    const artifact = await withArtifacts(invocation, async (engine) => {
      const org = await chosenOrg(engine, values);
      const found = await readArtifact(engine, { ...wholeOrg(org.id), id: args[0] as string });
      if (output === undefined && out.json) return found.artifact;
      const body = await openContent(engine, found);
      const source = body instanceof Readable ? body : Readable.from(body);
      const steps = [byteProgress(out, 'Read', found.artifact.size), checkedBytes(found.artifact)] as const;
      if (output === undefined) await pipeline(source, ...steps, process.stdout, { end: false });
      else await toFile(output, (file) => pipeline(source, ...steps, createWriteStream(file, { flags: 'wx' })));
      return found.artifact;
    });
    if (output !== undefined) out.answer({ artifact, file: output }, () => [`Wrote ${sizeText(artifact.size)} to ${output}.`]);
    else if (out.json) out.answer({ artifact }, () => []);
    return EXIT.ok;
  },
});

/** Writes under another name first, so that a file that exists is replaced as a whole or not at all. */
async function toFile(file: string, write: (draft: string) => Promise<void>): Promise<void> {
  const draft = `${file}.${process.pid}.part`;
  try {
    await write(draft);
    await rename(draft, file);
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  }
}

function checkedBytes({ id, sha256 }: Artifact): Transform {
  const hash = createHash('sha256');
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk);
      done(null, chunk);
    },
    flush(done) {
      const isRight = hash.digest('hex') === sha256;
      done(isRight ? null : new AppError('INTERNAL_ERROR', { message: `The stored bytes of artifact ${id} no longer have its checksum.` }));
    },
  });
}

const LINK_OPTIONS = {
  ...ONE_ORG_OPTION,
  expires: { type: 'string', value: 'DURATION', help: 'how long the link works, at most 7d; default 15m' },
  url: { type: 'string', value: 'URL', help: 'the address of the server; default: the one of the configuration' },
  reason: REASON,
} as const;

export const artifactsLink = defineCommand({
  name: 'artifacts link',
  summary: 'make a link to an artifact that works without a key',
  takes: 'ID',
  ...ONE_ARG,
  options: LINK_OPTIONS,
  details: 'Everyone who has the link can read the artifact until the link expires. It cannot be taken back.',
  examples: ['millrace artifacts link ID', 'millrace artifacts link ID --expires 1h --url https://jobs.example.com'],
  async run(invocation: Invocation<typeof LINK_OPTIONS>) {
    const { values, args, out } = invocation;
    const base = values.url ?? addressOf(settingsOf(values).config);
    if (!URL.canParse(base)) throw new UsageError(`--url is not a URL: ${base}.`, 'artifacts link');
    const id = args[0] as string;
    const link = await withArtifacts(invocation, async (engine) => {
      const org = await chosenOrg(engine, values);
      return linkArtifact(engine, { ...wholeOrg(org.id), id, expiresIn: values.expires, requester: requesterFor(values.reason) });
    });
    const url = new URL(`/queue/v1/artifacts/${id.toLowerCase()}/content`, base);
    url.searchParams.set('link', link.token);
    out.answer({ url: url.href, expiresAt: link.expiresAt }, () => [url.href]);
    out.note(`It works until ${link.expiresAt.toISOString()}.`);
    return EXIT.ok;
  },
});

const factsOf = (artifact: Artifact): string[] =>
  textFacts([
    ['artifact', artifact.id],
    ['name', artifact.name],
    ['size', sizeText(artifact.size)],
    ['sha256', artifact.sha256],
    ['type', artifact.contentType],
    ['expires', artifact.expiresAt.toISOString()],
  ]);
