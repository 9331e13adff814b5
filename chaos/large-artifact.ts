// node chaos/large-artifact.ts [--mb 1024] [--limit-mb 200]: uploads a large artifact to `millrace up`, reads it back and breaks off a second upload
// in the middle. Fails if the memory of the server grows by more than the limit, if a byte differs, or if something of the second upload is left.
import { createHash, randomBytes } from 'node:crypto';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { residentMb } from './memory-watch.ts';
import { createPostgres } from './postgres-server.ts';
import { Program } from './program.ts';

const { values } = parseArgs({ options: { mb: { type: 'string', default: '1024' }, 'limit-mb': { type: 'string', default: '200' } } });
const [megabytes, limitMb] = [Number(values.mb), Number(values['limit-mb'])];
const MEGABYTE = randomBytes(1_048_576);
const LOOK_EVERY_MS = 100;

function* bytes(count: number): Generator<Buffer> {
  for (let sent = 0; sent < count; sent++) yield MEGABYTE;
}

const postgres = await createPostgres();
const folder = await mkdtemp(join(tmpdir(), 'large-artifact-'));
const program = new Program(postgres.url, { MILLRACE_OBJECTS_FOLDER: folder });
const problems: string[] = [];
try {
  await program.start();
  const authorization = `Bearer ${program.key}`;
  const pid = program.pid as number;
  const beganMb = residentMb(pid);
  let mostMb = beganMb;
  const looking = setInterval(() => {
    mostMb = Math.max(mostMb, residentMb(pid));
  }, LOOK_EVERY_MS);

  const upload = (body: Readable) => {
    const sent = request(`${program.url}/queue/v1/artifacts`, {
      method: 'POST',
      headers: { authorization, 'transfer-encoding': 'chunked' },
    });
    const answered = new Promise<string>((resolve, reject) => {
      sent.on('error', reject).on('response', async (response) => {
        let text = '';
        for await (const chunk of response) text += chunk;
        resolve(text);
      });
    });
    answered.catch(() => {});
    return { sent, answered, done: pipeline(body, sent) };
  };

  const hash = createHash('sha256');
  for (const chunk of bytes(megabytes)) hash.update(chunk);
  const sha256 = hash.digest('hex');
  let startedMs = performance.now();
  const { answered, done } = upload(Readable.from(bytes(megabytes)));
  await done;
  const artifact = JSON.parse(await answered) as { artifact_id: string; sha256: string };
  console.log(`stored ${megabytes} MB in ${Math.round(performance.now() - startedMs)} ms`);
  if (artifact.sha256 !== sha256) problems.push('the stored checksum differs');

  startedMs = performance.now();
  const response = await fetch(`${program.url}/queue/v1/artifacts/${artifact.artifact_id}/content`, { headers: { authorization } });
  const readBack = createHash('sha256');
  for await (const chunk of response.body as unknown as AsyncIterable<Uint8Array>) readBack.update(chunk);
  console.log(`read ${megabytes} MB in ${Math.round(performance.now() - startedMs)} ms`);
  if (readBack.digest('hex') !== sha256) problems.push('the bytes that were read differ');

  const before = await files();
  const endless = upload(
    Readable.from(
      (async function* () {
        yield* bytes(16);
        await new Promise(() => {});
      })(),
    ),
  );
  endless.done.catch(() => {});
  while ((await files()) === before) await delay(LOOK_EVERY_MS);
  endless.sent.destroy();
  for (let tries = 0; tries < 100 && (await files()) !== before; tries++) await delay(LOOK_EVERY_MS);
  if ((await files()) !== before) problems.push('an upload that was broken off left files behind');

  clearInterval(looking);
  console.log(`memory of the server: ${Math.round(beganMb)} MB before, ${Math.round(mostMb)} MB at most`);
  if (mostMb - beganMb > limitMb) problems.push(`the memory of the server grew by more than ${limitMb} MB`);
  problems.push(...program.faults);
} finally {
  await program.stop();
  await postgres.remove();
  await rm(folder, { recursive: true, force: true });
}

async function files(): Promise<number> {
  return (await readdir(folder, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile()).length;
}

for (const problem of problems) console.error(`failed: ${problem}`);
process.exitCode = problems.length === 0 ? 0 : 1;
if (problems.length === 0) console.log('passed');
