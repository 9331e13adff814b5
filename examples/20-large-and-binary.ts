/**
 * Large and binary values. A payload or a result is JSON, or bytes (`Uint8Array`), which come back byte for byte. Each may have
 * 1 MB. For results, the setting `limits.result_size` of `millrace work` raises that to at most 16 MB; in a program of your own it is
 * `maxResultBytes` of `open`. `maxPayloadBytes` does the same for payloads. This file is also the module of handlers.
 */
import { spawn } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Millrace } from '../src/index.ts'; // In your program: from 'millrace'

type Jobs = {
  scale: { payload: Uint8Array; result: Uint8Array };
  report: { payload: { lines: number }; result: string[] };
};
const MB = 1024 * 1024;
const threeTimes = (image: Uint8Array) => Buffer.concat([image, image, image]);

/** `millrace work` calls this. */
export function register(millrace: Millrace<Jobs>): void {
  millrace.register({ type: 'scale', handler: (_context, image) => threeTimes(image) });
  millrace.register({ type: 'report', handler: (_context, { lines }) => Array<string>(lines).fill('a line of the report') });
}

/** In a shell: npx millrace work ./20-large-and-binary.ts --queues QUEUE, with the settings in millrace.toml or as variables. */
async function whileWorking(queue: string, settings: NodeJS.ProcessEnv, work: () => Promise<void>): Promise<void> {
  const program = fileURLToPath(new URL('../bin/millrace.js', import.meta.url));
  const args = [program, 'work', import.meta.filename, '--queues', queue];
  const worker = spawn(process.execPath, args, {
    env: { ...process.env, MILLRACE_TELEMETRY_LOG_LEVEL: 'off', ...settings },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  await work();
  worker.kill('SIGTERM');
  await once(worker, 'exit');
}

async function main(): Promise<void> {
  // A separate queue, so that concurrent runs of this example do not affect each other.
  const queue = `example-${randomUUID()}`;
  const millrace = await Millrace.open<Jobs>();
  const image = randomBytes(MB);
  const { jobId } = await millrace.submit({ type: 'scale', payload: image, queue });
  console.log('a payload of 1 MB of bytes: accepted');
  await millrace.submit({ type: 'scale', payload: randomBytes(MB + 1), queue }).catch((error: { code: string; message: string }) => {
    console.log(`one byte more: ${error.code}, ${error.message}`);
  });

  await whileWorking(queue, {}, async () => {
    const job = await millrace.waitFor(jobId, { timeout: '1m' });
    console.log(`a result of 3 MB: ${job.state}, ${job.lastFailure?.code}`);
  });

  await whileWorking(queue, { MILLRACE_LIMITS_RESULT_SIZE: '16mb' }, async () => {
    await millrace.retry(jobId);
    const job = await millrace.waitFor(jobId, { timeout: '1m' });
    const output = job.result?.output ?? new Uint8Array();
    console.log(`with limits.result_size = "16mb": ${job.state}, ${output.length / MB} MB`);
    console.log(`payload and result came back byte for byte: ${image.equals(job.payload) && threeTimes(image).equals(output)}`);
    const report = await millrace.submit({ type: 'report', payload: { lines: 200_000 }, queue });
    const { result } = await millrace.waitFor(report.jobId, { timeout: '1m' });
    console.log(`a JSON result: ${result?.output?.length} lines`);
  });
  await millrace.close();
}

if (process.argv[1] === import.meta.filename) await main();
