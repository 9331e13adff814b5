/** The queue API with a folder for artifacts. */
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { API_KEY_SCOPES } from '../../src/core/api-key.ts';
import type { ArtifactStorage } from '../../src/engine/artifacts/artifact-storage.ts';
import { FolderStore } from '../../src/objects/folder-store.ts';
import { ACTIONS_BESIDE_KEYS } from '../ledger/audited-actions.ts';
import { type Caller, QUEUE, type QueueServer, useQueue } from './queue-fixture.ts';

export const DAY_MS = 86_400_000;
const MAX_BYTES = 8 * 1024 * 1024;

export const sha256Of = (bytes: string | Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

// biome-ignore lint/suspicious/noExplicitAny: tests look at answers as they come
type Uploaded = { status: number; body: any; headers: Headers };

/** An org that can send and fetch bytes. */
export type FileCaller = {
  readonly caller: Caller;
  readonly key: string;
  upload(bytes: BodyInit | null, headers?: Record<string, string>): Promise<Uploaded>;
  content(id: string, headers?: Record<string, string>): Promise<Response>;
};

export class ArtifactServer {
  readonly queue: QueueServer;
  folder!: string;
  storage!: ArtifactStorage;

  constructor(queue: QueueServer) {
    this.queue = queue;
  }

  open(): void {
    this.folder = mkdtempSync(join(tmpdir(), 'artifacts-'));
    this.storage = { store: new FolderStore(this.folder), bucket: 'artifacts', maxBytes: MAX_BYTES, retentionMs: 30 * DAY_MS };
    this.queue.engine.artifacts = this.storage;
  }

  /** Keeps the sweeper of the engine away, which comes at any moment, while a test sweeps itself. Nothing can be uploaded meanwhile. */
  async sweptByHand<T>(work: () => Promise<T>): Promise<T> {
    this.queue.engine.artifacts = null;
    return work().finally(() => {
      this.queue.engine.artifacts = this.storage;
    });
  }

  close(): void {
    rmSync(this.folder, { recursive: true, force: true });
  }

  /** The ids of the objects of an org. */
  objects(orgId: string): string[] {
    const ids = this.files().flatMap((path) => (path.includes(orgId) ? (/([0-9a-f]{8}-[0-9a-f-]{27})[^/]*$/.exec(path)?.[1] ?? []) : []));
    return [...new Set(ids)];
  }

  /** Files of the store that belong to no object: bytes that are being written, or that a writer left. */
  drafts(): string[] {
    return this.files().filter((path) => path.includes('.%new'));
  }

  files(): string[] {
    if (!existsSync(this.folder)) return [];
    try {
      return readdirSync(this.folder, { recursive: true, withFileTypes: true })
        .filter((entry) => entry.isFile())
        .map((entry) => relative(this.folder, join(entry.parentPath, entry.name)));
    } catch (error) {
      // The store removed a folder while it was read.
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return this.files();
      throw error;
    }
  }

  async rows(orgId: string): Promise<{ id: string; state: string; name: string }[]> {
    const { rows } = await this.queue.ledger.db.api.query('SELECT id, state, name FROM millrace.artifacts WHERE org_id = $1', [orgId]);
    return rows;
  }

  async actions(orgId: string): Promise<{ event: string; actor: string; details: Record<string, unknown> }[]> {
    const text = `SELECT event, actor, details FROM ${ACTIONS_BESIDE_KEYS} WHERE org_id = $1 ORDER BY id`;
    return (await this.queue.ledger.db.api.query(text, [orgId])).rows;
  }

  async caller(): Promise<FileCaller> {
    const caller = await this.queue.caller();
    return this.withKey(caller, await this.queue.keyOf(caller.orgId, API_KEY_SCOPES));
  }

  withKey(caller: Caller, key: string): FileCaller {
    const { queue } = this;
    const authorization = `Bearer ${key}`;
    return {
      caller,
      key,
      async upload(bytes, headers = {}) {
        const response = await fetch(`${queue.url}${QUEUE}/artifacts`, {
          method: 'POST',
          headers: { authorization, ...headers },
          body: bytes,
          ...(bytes instanceof ReadableStream ? { duplex: 'half' } : {}),
        } as RequestInit);
        return { status: response.status, body: await response.json(), headers: response.headers };
      },
      content: (id, headers = {}) => fetch(`${queue.url}${QUEUE}/artifacts/${id}/content`, { headers: { authorization, ...headers } }),
    };
  }
}

/** Call once at the top of a test file. */
export function useArtifacts(): ArtifactServer {
  const server = new ArtifactServer(useQueue());
  beforeAll(() => server.open());
  afterAll(() => server.close());
  return server;
}
