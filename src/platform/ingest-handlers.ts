import { AppError } from '../core/errors.ts';
import { type IngestHandler, type IngestHandlerContext, makeIngestHandler, registeredIngestHandlers } from '../core/ingest/handler.ts';
import { type IngestJobType, type IngestSettings, plainJobType } from '../core/ingest/job-type.ts';
import { suggestion } from '../core/nearest-name.ts';

const DEFAULT_HANDLER: IngestHandler = {};

/** The handlers of job types, each made once with the options of its job type. */
export class IngestHandlers {
  readonly #settings: IngestSettings;
  readonly #made = new Map<string, IngestHandler>();

  constructor(settings: IngestSettings) {
    this.#settings = settings;
  }

  /** Throws if no module registered a handler that the configuration names. Call it after the modules are loaded. */
  check(): void {
    for (const jobType of this.#settings.jobTypes.values()) this.of(jobType);
  }

  of(jobType: IngestJobType): IngestHandler {
    const { name, handler: path } = jobType;
    if (path === null) return DEFAULT_HANDLER;
    const known = this.#made.get(name);
    if (known !== undefined) return known;
    const handlers = registeredIngestHandlers();
    const source = handlers.get(path);
    if (source === undefined) throw unregistered(jobType, [...handlers.keys()]);
    const made = makeIngestHandler(path, source, contextOf(jobType));
    this.#made.set(name, made);
    return made;
  }

  /** For jobs whose job type may have been removed from the configuration. */
  named(name: string): { handler: IngestHandler; context: IngestHandlerContext } {
    const jobType = this.#settings.jobTypes.get(name) ?? plainJobType(name);
    return { handler: this.of(jobType), context: contextOf(jobType) };
  }
}

const contextOf = ({ name, options }: IngestJobType): IngestHandlerContext => ({ jobType: name, options });

function unregistered({ name, handler }: IngestJobType, known: readonly string[]): AppError {
  const field = `job_types.${name}.handler`;
  const near = suggestion(handler as string, known);
  const message =
    `The configuration is not valid: ${field} is ${JSON.stringify(handler)}, and no module registered a handler under that path${near}. ` +
    'Call registerIngestHandler with it in a module, and name the module: "millrace up ./handlers.ts".';
  return new AppError('INVALID_CONFIG', { message, details: [{ field, code: 'UNREGISTERED_HANDLER', message }] });
}
