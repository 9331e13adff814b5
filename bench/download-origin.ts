// The server whose files bench/downloads.ts downloads, in a process that costs little. Reports its port, and ends with its parent.
import { createServer } from 'node:http';

const MEGABYTE = 1_048_576;
const [bytes = '4096', megabytes = '1024'] = process.argv.slice(2);
const small = Buffer.alloc(Number(bytes), 'x');
const large = Buffer.alloc(MEGABYTE, 'x');

const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
  if (request.url !== '/large') return response.end(small);
  response.setHeader('content-length', Number(megabytes) * MEGABYTE);
  let left = Number(megabytes);
  const pour = () => {
    while (left > 0) {
      left--;
      if (!response.write(large)) return response.once('drain', pour);
    }
    return response.end();
  };
  pour();
  return response;
});
process.once('disconnect', () => process.exit(0));
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as { port: number }).port));
