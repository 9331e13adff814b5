/** Holds what goes over the wire to the OpenAPI document: every answer, and every request that was accepted. */
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';

export type Operation = {
  operationId: string;
  summary?: string;
  description?: string;
  tags?: string[];
  security: Record<string, string[]>[];
  requestBody?: { content: Record<string, { schema: unknown }> };
  responses: Record<string, { description?: string; content?: Record<string, { schema: unknown }> }>;
};

export type OpenApi = {
  openapi: string;
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, unknown> };
};

export type Exchange = {
  method: string;
  path: string;
  sent: unknown;
  status: number;
  body: unknown;
  /** Where an answer has several, or the first is not the one meant. */
  contentType?: string;
};

// What answers write, which is narrower than what the standard allows: UTC with milliseconds or microseconds.
const TIMESTAMP = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}(?:\d{3})?Z$/;

export class Contract {
  readonly document: OpenApi;
  readonly #ajv = new Ajv2020({ strict: false, allErrors: true, formats: { 'date-time': TIMESTAMP, uuid: true } });
  readonly #validators = new Map<string, ValidateFunction>();

  constructor(document: OpenApi) {
    this.document = document;
    this.#ajv.addSchema(document, 'openapi', true);
  }

  /** Every operation, with its method and path. */
  get operations(): { method: string; path: string; operation: Operation }[] {
    return Object.entries(this.document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
    );
  }

  /** Throws unless the document allows this exchange. */
  check({ method, path, sent, status, body, contentType }: Exchange): void {
    const template = this.#templateOf(method, path);
    const at = ['paths', template, method.toLowerCase()];
    const operation = this.document.paths[template]?.[method.toLowerCase()];
    if (operation?.responses[status] === undefined) throw new Error(`${method} ${template}: ${status} is not documented`);
    const types = Object.keys(operation.responses[status]?.content ?? {});
    const type = contentType ?? types[0] ?? 'application/json';
    if (!types.includes(type)) throw new Error(`${method} ${template}: ${status} is not documented as ${type}`);
    this.#validate([...at, 'responses', String(status), 'content', type, 'schema'], body);
    // A batch is answered even where jobs in it are rejected.
    const isAccepted = status >= 200 && status < 300 && !((body as { rejected?: number }).rejected ?? 0);
    if (isAccepted && sent !== undefined) this.#validate([...at, 'requestBody', 'content', 'application/json', 'schema'], sent);
  }

  /** Whether there is such an operation at all. */
  has(method: string, path: string): boolean {
    return this.#templatesOf(method, path).length > 0;
  }

  /** Throws unless the value is of the named shape. */
  checkShape(name: string, value: unknown): void {
    this.#validate(['components', 'schemas', name], value);
  }

  /** Throws unless every example of a named shape is one that the shape allows. Answers how many there are. */
  checkExamples(): number {
    let count = 0;
    for (const [name, schema] of Object.entries(this.document.components.schemas)) {
      const { examples = [] } = schema as { examples?: unknown[] };
      for (const example of examples) this.#validate(['components', 'schemas', name], example);
      count += examples.length;
    }
    return count;
  }

  #templateOf(method: string, path: string): string {
    const templates = this.#templatesOf(method, path);
    const exact = templates.sort((left, right) => left.split('{').length - right.split('{').length)[0];
    if (exact === undefined) throw new Error(`${method} ${path} is not in the document`);
    return exact;
  }

  #templatesOf(method: string, path: string): string[] {
    const parts = path.split('/');
    const fits = (template: string) => {
      const wanted = template.split('/');
      return wanted.length === parts.length && wanted.every((part, index) => part === parts[index] || part.startsWith('{'));
    };
    return Object.keys(this.document.paths).filter((each) => fits(each) && this.document.paths[each]?.[method.toLowerCase()] !== undefined);
  }

  #validate(pointer: readonly string[], value: unknown): void {
    const key = pointer.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/');
    const validate = this.#validators.get(key) ?? this.#ajv.compile({ $ref: `openapi#/${key}` });
    this.#validators.set(key, validate);
    if (validate(value)) return;
    throw new Error(`${pointer.join(' ')}: ${this.#ajv.errorsText(validate.errors)}\n${JSON.stringify(value, null, 1).slice(0, 2_000)}`);
  }
}
