import type { FastifyContextConfig } from 'fastify';
import type { StreamLog } from '../../core/ingest/stream.ts';
import type { IngestContext } from '../../services/ingest/context.ts';
import type { DownloadControls } from '../../services/ingest/download-controls.ts';

export type OperatorParts = {
  readonly ingest: IngestContext;
  readonly streams: StreamLog;
  readonly downloads: DownloadControls;
  /** Discards the cached state of a key that was revoked. */
  readonly forgetKey: (keyId: string) => void;
  /** For every route that needs an operator. */
  readonly config: FastifyContextConfig;
};
