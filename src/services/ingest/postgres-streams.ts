import { STREAMS, type StreamLog } from '../../core/ingest/stream.ts';
import type { Database } from '../../ledger/driver/database.ts';
import { readsOf } from '../../ledger/driver/org-reads.ts';
import { appendEntries, headOfStream, numberEntries, readStream, trimStream } from '../../ledger/ingest/streams.ts';

/** The streams of the ingest API in PostgreSQL. */
export function postgresStreams({ api, reads, maintenance }: Pick<Database, 'api' | 'reads' | 'maintenance'>): StreamLog {
  return {
    append: (entries) => appendEntries(api, entries),
    // A reader sees everything that was committed before.
    async read(read) {
      await numberEntries(api, read.stream);
      return readStream(readsOf(reads, read.orgId ?? null, api), read);
    },
    async head(stream) {
      await numberEntries(api, stream);
      return headOfStream(api, stream);
    },
    trim: (stream, params) => trimStream(maintenance, { stream, ...params }),
  };
}

/** Numbers new entries of all streams, so that a first reader has little to do. Returns how many there were. */
export async function numberStreams({ maintenance }: Pick<Database, 'maintenance'>): Promise<number> {
  let numbered = 0;
  for (const stream of STREAMS) numbered += await numberEntries(maintenance, stream);
  return numbered;
}
