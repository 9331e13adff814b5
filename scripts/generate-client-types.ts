// Makes src/client/api-types.ts, the types of the client library, from the OpenAPI document of the server.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { queueDoor } from '../src/http/queue/door.ts';
import { buildServer } from '../src/http/server.ts';
import { clientTypes, type OpenApiDocument } from './client-types.ts';

const FILE = join(import.meta.dirname, '../src/client/api-types.ts');

const http = await buildServer({
  // Nothing of these is used: the document is made from the routes alone.
  engine: {} as never,
  authenticator: {} as never,
  limiter: {} as never,
  doors: [queueDoor],
  version: '0',
});
await http.ready();
writeFileSync(FILE, clientTypes(http.swagger() as unknown as OpenApiDocument, 'queue'));
await http.close();
