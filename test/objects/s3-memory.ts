/** Streams an object of 160 MB and reports by how much the memory of this process grew. */
import { S3Store } from '../../src/objects/s3-store.ts';
import { bytesOf, MB } from './bytes.ts';

const [options = '', call] = process.argv.slice(2);
const store = new S3Store(JSON.parse(options));
const name = { bucket: 'conformance', key: 'large' };
const chunk = bytesOf(MB);

async function* body() {
  for (let sent = 0; sent < 160; sent++) yield chunk;
}

// The first request loads what every later one needs.
await store.put({ bucket: 'conformance', key: 'warm' }, bytesOf(9 * MB));
const before = process.resourceUsage().maxRSS;
let size = 0;
if (call === 'put') size = (await store.put(name, body())).size;
else for await (const piece of (await store.get(name))!.body) size += piece.length;
process.send?.({ size, grownBytes: (process.resourceUsage().maxRSS - before) * 1024 });
process.disconnect?.();
await store.close();
