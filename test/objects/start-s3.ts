import { fork } from 'node:child_process';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { CREDENTIALS } from './s3-signature.ts';

/** Starts the S3 server of the tests in a process of its own. */
export async function startS3() {
  const child = fork(new URL('./s3-server.ts', import.meta.url));
  const [{ port }] = (await once(child, 'message')) as [AddressInfo];
  const options = { endpoint: `http://127.0.0.1:${port}`, region: 'us-east-1', forcePathStyle: true, ...CREDENTIALS };
  const stop = async () => {
    const ended = once(child, 'exit');
    child.kill();
    await ended;
  };
  return { options, port, stop };
}

/** The store refuses these keys. */
export const isRefusedByS3 = (key: string): boolean =>
  key.includes('\0') || key.split('/').some((segment) => segment === '.' || segment === '..');
