import type { Artifact, ArtifactLink, ArtifactLinkRequest, ArtifactList, ListArtifactsQuery } from './api-types.ts';
import { allPages } from './pages.ts';
import type { CallOptions, Transport } from './transport.ts';

/** What the server keeps with a file. */
export type UploadOptions = CallOptions & {
  /** The name of the file. Default: artifact. */
  name?: string;
  /** Default: the type of the blob, or application/octet-stream. */
  contentType?: string;
  /** `import`: the file is the input of an import. */
  purpose?: 'import';
  /** Why, for the audit trail. */
  reason?: string;
};

/** Which bytes of a file to read. */
export type ContentOptions = CallOptions & {
  /** The first byte. Default: 0. */
  start?: number;
  /** The last byte, which is included. Default: the last one of the file. */
  end?: number;
};

const PAGE = 1_000;

/** Files of jobs and inputs of imports. */
export class ClientArtifacts {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Stores a file. The server compares its checksum with the one that is computed here. The client repeats this call only after a 429, because a
   * repeat would store a second file. No time limit applies: abort it with `signal`.
   */
  async upload(content: Blob | Uint8Array | string, options: UploadOptions = {}): Promise<Artifact> {
    const { name, contentType, purpose, reason, signal } = options;
    const blob = content instanceof Blob ? content : new Blob([content as Uint8Array<ArrayBuffer> | string]);
    const headers = {
      'content-type': contentType ?? (blob.type === '' ? 'application/octet-stream' : blob.type),
      'x-checksum-sha256': hexOf(await crypto.subtle.digest('SHA-256', await blob.arrayBuffer())),
      ...(name === undefined ? {} : { 'x-artifact-name': `UTF-8''${encodeURIComponent(name)}` }),
      ...(purpose === undefined ? {} : { 'x-artifact-purpose': purpose }),
      ...(reason === undefined ? {} : { 'x-reason': reason }),
    };
    const call = { method: 'POST', path: '/artifacts', content: blob, headers, signal, isUnrepeatable: true } as const;
    return (await this.#transport.stream(call)).json() as Promise<Artifact>;
  }

  /** Iterates over the files of a job, oldest first, and fetches pages as needed. */
  list(jobId: string, query: ListArtifactsQuery = {}, { signal }: CallOptions = {}): AsyncGenerator<Artifact, void> {
    const path = `/jobs/${encodeURIComponent(jobId)}/artifacts`;
    const read = async (cursor: string | undefined) => {
      const page = await this.#transport.json<ArtifactList>({ method: 'GET', path, query: { limit: PAGE, ...query, cursor }, signal });
      return { items: page.items, nextCursor: page.next_cursor };
    };
    return allPages({ cursor: query.cursor, signal, read });
  }

  /** Returns what is known about a file. Throws NotFoundError if the org has no such file, or it has expired. */
  get(artifactId: string, { signal }: CallOptions = {}): Promise<Artifact> {
    return this.#transport.json({ method: 'GET', path: pathOf(artifactId), signal });
  }

  /** Opens the bytes of a file: read `body`, or call `arrayBuffer()`. No time limit applies: abort it with `signal`. */
  content(artifactId: string, { start, end, signal }: ContentOptions = {}): Promise<Response> {
    const headers: Record<string, string> = { accept: '*/*' };
    if (start !== undefined || end !== undefined) headers.range = `bytes=${start ?? 0}-${end ?? ''}`;
    return this.#transport.stream({ method: 'GET', path: `${pathOf(artifactId)}/content`, headers, signal });
  }

  /** Makes an address of the bytes that works without a key until it expires. */
  link(artifactId: string, body: ArtifactLinkRequest = {}, { signal }: CallOptions = {}): Promise<ArtifactLink> {
    return this.#transport.json({ method: 'POST', path: `${pathOf(artifactId)}/link`, body, signal });
  }
}

const pathOf = (artifactId: string): string => `/artifacts/${encodeURIComponent(artifactId)}`;

const hexOf = (bytes: ArrayBuffer): string => Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, '0')).join('');
