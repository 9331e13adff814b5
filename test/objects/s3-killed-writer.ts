/** Puts part of one object and uploads part of another one, then kills itself. */
import { S3Store } from '../../src/objects/s3-store.ts';
import { bytesOf, inChunks, MB } from './bytes.ts';

const store = new S3Store(JSON.parse(process.argv[2] ?? ''));
const upload = await store.upload({ bucket: 'conformance', key: 'killed-upload' }, { uploadId: 'killed' });
const bytes = bytesOf(20 * MB);
// Closing waits for the two parts that are full, and forgets the rest.
await upload.write(bytes.subarray(0, 17 * MB));
await upload.close();

async function* body() {
  yield* inChunks(bytes);
  process.kill(process.pid, 'SIGKILL');
}
await store.put({ bucket: 'conformance', key: 'killed-put' }, body());
