// Writes src/client/api-types.ts, the types of the client library, from the OpenAPI document of the server. Git ignores the
// file: npm ci and npm run typecheck write it.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DEFAULT_LIMITS } from '../src/core/submission.ts';
import { openQueueDoor } from '../src/http/queue/door.ts';
import { buildServer } from '../src/http/server.ts';
import { clientTypes, type OpenApiDocument } from './client-types.ts';

const FILE = join(import.meta.dirname, '../src/client/api-types.ts');

const http = await buildServer({
  // The document needs the routes and their limits only.
  engine: { limits: DEFAULT_LIMITS } as never,
  authenticator: {} as never,
  limiter: {} as never,
  doors: [openQueueDoor({ queueSize: 1 })],
  version: '0',
});
await http.ready();
writeFileSync(FILE, clientTypes(http.swagger() as unknown as OpenApiDocument, 'queue'));
await http.close();
