/** Turns the OpenAPI 3.1 document of this server into TypeScript. It throws at a schema that it does not know. */

export type Schema = {
  $ref?: string;
  type?: string | string[];
  enum?: unknown[];
  const?: unknown;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  items?: Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  description?: string;
};

type Parameter = { name: string; in: string; required?: boolean; description?: string; schema: Schema };
type Content = Record<string, { schema?: Schema }>;
type Operation = {
  operationId: string;
  summary?: string;
  tags?: string[];
  parameters?: Parameter[];
  requestBody?: { content: Content };
  responses: Record<string, { content?: Content }>;
};

export type OpenApiDocument = {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
};

const HEADER = '// Generated from the OpenAPI document. Do not edit: run "npm run types".\n';
const REF = '#/components/schemas/';

/** The document repeats these lists of words wherever it uses them. Here each gets a name. */
const WORDS = new Map([
  [
    'PENDING|DELAYED|SCHEDULED|RUNNING|RETRYING|COMPLETED|FAILED|DEAD_LETTER|CANCELLED',
    { name: 'JobState', description: 'The state of a job.' },
  ],
  ['CRITICAL|HIGH|NORMAL|LOW|BULK', { name: 'Priority', description: 'The priority of a job, most urgent first.' }],
  ['TEMPORARY|PERMANENT|TIMEOUT|SYSTEM', { name: 'FailureCategory', description: 'The kind of a failure.' }],
]);

/** Writes one type for each schema that the operations of a tag use, and one for the query of each operation. */
export function clientTypes(document: OpenApiDocument, tag: string): string {
  const operations = Object.values(document.paths)
    .flatMap((methods) => Object.values(methods))
    .filter((operation) => operation.tags?.includes(tag));
  const queries = operations.flatMap((operation) => queryOf(operation));
  const shapes = reachable(document, operations).map((name) => [name, document.components.schemas[name]] as const);
  const types = [...shapes, ...queries].map(([name, schema]) => {
    if (schema === undefined) throw new Error(`The document has no schema named ${name}.`);
    const described = describeMembers(schema, document);
    return `${comment(described, '')}export type ${name} = ${render(described, '')};\n`;
  });
  const words = [...WORDS].map(
    ([list, { name, description }]) => `/** ${description} */\nexport type ${name} = ${list.split('|').map(literal).join(' | ')};\n`,
  );
  return `${HEADER}\n${[...words, ...types].join('\n')}`;
}

/** A member that refers to a shape and has no description has that of the shape. */
function describeMembers(schema: Schema, document: OpenApiDocument): Schema {
  if (schema.$ref !== undefined) return { description: document.components.schemas[nameOf(schema.$ref)]?.description, ...schema };
  if (schema.properties === undefined) return schema;
  const members = Object.entries(schema.properties).map(([name, member]) => [name, describeMembers(member, document)]);
  return { ...schema, properties: Object.fromEntries(members) };
}

function queryOf({ operationId, summary, parameters = [] }: Operation): [string, Schema][] {
  const members = parameters.filter((parameter) => parameter.in === 'query');
  if (members.length === 0) return [];
  const properties = Object.fromEntries(
    members.map(({ name, schema, description }) => [name, { ...schema, description: description ?? schema.description }]),
  );
  const required = members.filter((member) => member.required).map(({ name }) => name);
  const name = `${operationId.charAt(0).toUpperCase()}${operationId.slice(1)}Query`;
  const description = `The query parameters of ${summary === undefined ? operationId : `"${summary}"`}.`;
  return [[name, { type: 'object', description, properties, required, additionalProperties: false }]];
}

/** The names of all schemas that the operations use, in the order of the document. */
function reachable(document: OpenApiDocument, operations: readonly Operation[]): string[] {
  const found = new Set<string>();
  const visit = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    const { $ref } = value as Schema;
    if (typeof $ref === 'string' && !found.has(nameOf($ref))) {
      found.add(nameOf($ref));
      visit(document.components.schemas[nameOf($ref)]);
    }
    for (const each of Object.values(value)) visit(each);
  };
  visit(operations);
  return Object.keys(document.components.schemas).filter((name) => found.has(name));
}

function nameOf(ref: string): string {
  if (!ref.startsWith(REF)) throw new Error(`${ref} is not a schema of the document.`);
  return ref.slice(REF.length);
}

function render(schema: Schema, indent: string): string {
  if (schema.$ref !== undefined) return nameOf(schema.$ref);
  if (schema.const !== undefined) return literal(schema.const);
  if (schema.enum !== undefined) return renderWords(schema.enum);
  const union = schema.anyOf ?? schema.oneOf;
  if (union !== undefined) return [...new Set(union.map((each) => render(each, indent)))].join(' | ');
  if (schema.allOf !== undefined) return schema.allOf.map((each) => render(each, indent)).join(' & ');
  if (schema.type === undefined) return 'unknown';
  return [...new Set([schema.type].flat().map((type) => renderType(type, schema, indent)))].join(' | ');
}

function renderWords(values: readonly unknown[]): string {
  const words = values.filter((value) => value !== null);
  const name = WORDS.get(words.join('|'))?.name;
  const all = name === undefined ? words.map(literal) : [name];
  return [...all, ...(words.length < values.length ? ['null'] : [])].join(' | ');
}

function renderType(type: string, schema: Schema, indent: string): string {
  if (type === 'integer' || type === 'number') return 'number';
  if (type === 'string' || type === 'boolean' || type === 'null') return type;
  if (type === 'array') {
    const items = render(schema.items ?? {}, indent);
    return /[ |&]/.test(items) && !items.startsWith('{') ? `(${items})[]` : `${items}[]`;
  }
  if (type === 'object') return renderObject(schema, indent);
  throw new Error(`No TypeScript is known for the type ${type}.`);
}

function renderObject({ properties = {}, required = [], additionalProperties }: Schema, indent: string): string {
  const inner = `${indent}  `;
  const members = Object.entries(properties).map(([name, schema]) => {
    const mark = required.includes(name) ? '' : '?';
    return `${comment(schema, inner)}${inner}${quoted(name)}${mark}: ${render(schema, inner)};\n`;
  });
  if (members.length > 0) return `{\n${members.join('')}${indent}}`;
  if (additionalProperties === false) return 'Record<string, never>';
  const value = typeof additionalProperties === 'object' ? render(additionalProperties, indent) : 'unknown';
  return `Record<string, ${value}>`;
}

const literal = (value: unknown): string =>
  typeof value === 'string' ? `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'` : JSON.stringify(value);

const quoted = (name: string): string => (/^[A-Za-z_$][\w$]*$/.test(name) ? name : literal(name));

/** The description is on the schema, or on an alternative of its union. */
function comment(schema: Schema, indent: string): string {
  const description = schema.description ?? schema.anyOf?.find((each) => each.description !== undefined)?.description;
  if (description === undefined) return '';
  return `${indent}/** ${description.replaceAll('*/', '*\\/').replaceAll(/\s+/g, ' ')} */\n`;
}
