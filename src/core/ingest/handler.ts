import { AppError } from '../errors.ts';

/** Names and values. Read members that users name with `Object.hasOwn`. */
export type Texts = Readonly<Record<string, string>>;

/** One resource of a manifest. */
export type IngestResource = {
  /** The id that the client gave, unique in the manifest. */
  readonly id: string;
  /** The address to download. */
  readonly url: string;
  /** The headers of the resource, without those of the configuration. */
  readonly headers: Texts;
  /** The tags of the resource. */
  readonly tags: Texts;
};

/** A manifest as handlers see it. */
export type IngestManifest = {
  /** The id of the ingest job. */
  readonly jobId: string;
  /** The job type of the request. */
  readonly jobType: string;
  /** The tenant of the request; null without one. */
  readonly tenant: string | null;
  /** The metadata as the client sent it. */
  readonly metadata: Readonly<Record<string, unknown>>;
  /** What to download. */
  readonly resources: readonly IngestResource[];
  /** The attributes as the client sent them. */
  readonly attributes: Readonly<Record<string, unknown>>;
};

/** Where a download is stored. Members that are left out keep their defaults. */
export type TaskStorage = {
  /** The bucket. */
  readonly bucket?: string;
  /** The key of the object. */
  readonly key?: string;
  /** Names and values that are stored with the object, in addition to the tags. */
  readonly metadata?: Texts;
};

/** One download. Members that are left out are those of the resource and of the configuration. */
export type DownloadTask = {
  /** The id of a resource of the manifest. */
  readonly resourceId: string;
  /** The address to download. */
  readonly url?: string;
  /** Headers that replace those of the resource and of the configuration. */
  readonly headers?: Texts;
  /** The proxy pool to try first. */
  readonly proxy?: string;
  /** Where to store the download. */
  readonly storage?: TaskStorage;
  /** The tags of the download. */
  readonly tags?: Texts;
};

/** A download with all its members, as the storage hook sees it. */
export type CompleteTask = {
  /** The id of the resource. */
  readonly resourceId: string;
  /** The address to download. */
  readonly url: string;
  /** All headers of the request. */
  readonly headers: Texts;
  /** The proxy pool to try first; undefined without one. */
  readonly proxy: string | undefined;
  /** Where the download is stored unless the hook changes it. */
  readonly storage: Required<TaskStorage>;
  /** The tags of the download. */
  readonly tags: Texts;
};

/** How an ingest job ended. */
export type IngestSummary = {
  /** The id of the ingest job. */
  readonly jobId: string;
  /** The job type of the request. */
  readonly jobType: string;
  /** How many downloads there were. */
  readonly total: number;
  /** How many of them completed. */
  readonly completed: number;
  /** How many of them failed. */
  readonly failed: number;
  /** The bytes of the completed downloads. */
  readonly bytes: number;
};

/** What a handler is called with in addition to its input. */
export type IngestHandlerContext = {
  /** The job type of the request. */
  readonly jobType: string;
  /** The section `[job_types.<name>.options]`. */
  readonly options: Readonly<Record<string, unknown>>;
};

/** The logic of a job type. Every member is optional. */
export type IngestHandler = {
  /** Checks or changes the manifest before tasks are built. A PermanentError refuses the request with 400. */
  prepareManifest?(manifest: IngestManifest, context: IngestHandlerContext): IngestManifest | Promise<IngestManifest>;
  /** Returns at most one task for each resource. */
  buildTasks?(prepared: IngestManifest, context: IngestHandlerContext): readonly DownloadTask[] | Promise<readonly DownloadTask[]>;
  /** Runs in a worker when all downloads have ended. It also runs for a job without downloads. It is retried if it throws. */
  finalizeJob?(summary: IngestSummary, context: IngestHandlerContext): void | Promise<void>;
  /** Chooses bucket, key and metadata for each task. */
  storage?(task: CompleteTask, context: IngestHandlerContext): TaskStorage;
};

/** A handler, or a function that makes one from the options of its job type. */
export type IngestHandlerSource = IngestHandler | ((context: IngestHandlerContext) => IngestHandler);

const MEMBERS = ['prepareManifest', 'buildTasks', 'finalizeJob', 'storage'] as const;

/** The modules of a user may load another copy of this package, so the table belongs to the process. */
const TABLE = Symbol.for('millrace.ingestHandlers');

type Holder = { [TABLE]?: Map<string, IngestHandlerSource> };

function table(): Map<string, IngestHandlerSource> {
  const holder = globalThis as Holder;
  holder[TABLE] ??= new Map();
  return holder[TABLE];
}

/** Registers a handler under the path that `[job_types.<name>] handler` names. A second registration replaces the first. */
export function registerIngestHandler(path: string, handler: IngestHandlerSource): void {
  if (typeof path !== 'string' || path === '') throw invalid('path', 'must be a non-empty string, such as "shop::GalleryHandler"');
  if (typeof handler !== 'function') checkHandler(handler, path);
  table().set(path, handler);
}

/** Handlers by their paths. */
export const registeredIngestHandlers = (): ReadonlyMap<string, IngestHandlerSource> => table();

/** Calls the function that makes the handler, if there is one. */
export function makeIngestHandler(path: string, source: IngestHandlerSource, context: IngestHandlerContext): IngestHandler {
  if (typeof source !== 'function') return source;
  const handler = source(context);
  checkHandler(handler, path);
  return handler;
}

function checkHandler(handler: unknown, path: string): asserts handler is IngestHandler {
  const isObject = typeof handler === 'object' && handler !== null;
  const wrong = isObject ? MEMBERS.find((name) => !isCallable((handler as Record<string, unknown>)[name])) : undefined;
  if (!isObject) throw invalid('handler', `of ${path} must be an object with ${MEMBERS.join(', ')}, or a function that returns one`);
  if (wrong !== undefined) throw invalid(wrong, `of ${path} must be a function, or left out`);
}

const isCallable = (member: unknown): boolean => member === undefined || typeof member === 'function';

function invalid(field: string, text: string): AppError {
  const message = `The ingest handler cannot be registered: ${field} ${text}. Correct it and start again.`;
  return new AppError('INVALID_HANDLER', { message, details: [{ field, code: 'INVALID_VALUE', message }] });
}
