/**
 * Writes one object to a folder and stops at a chosen step:
 * `node --import ./crashing-steps.ts crashing-writer.ts <root> put|stream|together|upload kill|full <step>`. Reports the code of the error, or `done`.
 */
import { FolderStore } from '../../src/objects/folder-store.ts';
import { ObjectStoreError } from '../../src/objects/object-store-error.ts';
import { inChunks } from './bytes.ts';
import { BUCKET, KEY, NEW_BYTES, NEW_METADATA, TOGETHER, UPLOAD_ID } from './crashing-writer-words.ts';

const [root = '', call] = process.argv.slice(2);

const store = new FolderStore(root);
const name = { bucket: BUCKET, key: KEY };
try {
  if (call === 'put') {
    await store.put(name, NEW_BYTES.subarray(0, 100_000), { metadata: NEW_METADATA });
  } else if (call === 'stream') {
    await store.put(name, inChunks(NEW_BYTES.subarray(0, 100_000)), { metadata: NEW_METADATA });
  } else if (call === 'together') {
    const put = (key: string) =>
      store.put({ bucket: BUCKET, key }, NEW_BYTES.subarray(0, 1_000), { metadata: new Map([['version', key]]) });
    await Promise.all(TOGETHER.map(put));
  } else {
    const upload = await store.upload(name, { uploadId: UPLOAD_ID, metadata: NEW_METADATA });
    try {
      for await (const chunk of inChunks(NEW_BYTES.subarray(upload.offset))) await upload.write(chunk);
      await upload.complete();
    } finally {
      await upload.close();
    }
  }
  process.send?.('done');
} catch (error) {
  process.send?.(error instanceof ObjectStoreError ? error.code : String(error));
}
