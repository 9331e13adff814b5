import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { AppError } from '../core/errors.ts';
import { registeredIngestHandlers } from '../core/ingest/handler.ts';
import type { Registration } from '../engine/work/registry.ts';
import type { Millrace } from '../library/millrace.ts';

type HandlerModule = { register?: unknown; handlers?: unknown };

const WANTED =
  'Export a function "register(millrace)", or "handlers": a list of registrations such as { type, handler }, or an object of them by type. Or call registerIngestHandler.';

/** Loads the modules and lets each register its handlers. Returns the job types that they handle. */
export async function registerModules(millrace: Millrace, paths: readonly string[]): Promise<string[]> {
  const types = new Set<string>();
  const register = millrace.register.bind(millrace);
  millrace.register = (registration) => {
    const result = register(registration);
    types.add(result.type);
    return result;
  };
  for (const path of paths) await registerModule(millrace, path);
  return [...types].sort();
}

async function registerModule(millrace: Millrace, path: string): Promise<void> {
  const before = registeredIngestHandlers().size;
  const { register, handlers } = await load(path);
  // A module may register handlers of the ingest API alone.
  const hasIngestHandlers = registeredIngestHandlers().size > before;
  if (!hasIngestHandlers && typeof register !== 'function' && (typeof handlers !== 'object' || handlers === null)) {
    throw new AppError('INVALID_HANDLER', { message: `The module ${path} registers no handlers. ${WANTED}` });
  }
  if (typeof register === 'function') await register(millrace);
  if (typeof handlers !== 'object' || handlers === null) return;
  for (const registration of registrationsIn(handlers)) millrace.register(registration);
}

function registrationsIn(handlers: object): Registration[] {
  if (Array.isArray(handlers)) return handlers;
  return Object.entries(handlers).map(([type, value]) => (typeof value === 'function' ? { type, handler: value } : { type, ...value }));
}

async function load(path: string): Promise<HandlerModule> {
  const file = resolve(path);
  if (!existsSync(file)) {
    throw new AppError('INVALID_HANDLER', {
      message: `There is no file ${file}. Give the path of a module relative to the current folder.`,
    });
  }
  try {
    return await import(pathToFileURL(file).href);
  } catch (cause) {
    throw new AppError('INVALID_HANDLER', { message: explainLoading(path, cause), cause });
  }
}

function explainLoading(path: string, error: unknown): string {
  const isUnknownKind = error instanceof Error && 'code' in error && error.code === 'ERR_UNKNOWN_FILE_EXTENSION';
  if (isUnknownKind && /\.[cm]?ts$/.test(path)) {
    const advice = 'Install Node 22.18 or newer, or compile the module to JavaScript and name the compiled file';
    return `Node ${process.versions.node} cannot run the TypeScript module ${path}. ${advice}.`;
  }
  const message = error instanceof Error ? error.message : String(error);
  return `The module ${path} could not be loaded: ${message}. Correct it and start again.`;
}
