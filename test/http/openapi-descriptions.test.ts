import { expect, it } from 'vitest';
import { useExecution } from './execution-fixture.ts';

type Schema = {
  $ref?: string;
  description?: string;
  properties?: Record<string, Schema>;
  items?: Schema;
  additionalProperties?: boolean | Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
};
type Content = Record<string, { schema?: Schema }>;
type Header = { description?: string; schema?: Schema };
type Operation = {
  summary?: string;
  description?: string;
  parameters?: { name: string; in: string; description?: string; schema: Schema }[];
  requestBody?: { content: Content };
  responses: Record<string, { description?: string; headers?: Record<string, Header>; content?: Content }>;
};
type Paths = Record<string, Record<string, Operation>>;
type Document = { paths: Paths; webhooks: Paths; components: { schemas: Record<string, Schema> } };

const server = useExecution();

it('the document says what every schema, member, parameter, header and response means', async () => {
  const document = (await (await fetch(`${server.url}/openapi.json`)).json()) as Document;
  const places = [...placesOf(document)];
  expect(places.length).toBeGreaterThan(500);
  expect(places.filter(({ text }) => !isSentence(text)).map(({ at }) => at)).toEqual([]);
});

it('a member that refers to a shape says what it means in its place', async () => {
  const { schemas } = ((await (await fetch(`${server.url}/openapi.json`)).json()) as Document).components;
  expect(schemas.FailureDetails?.properties?.failure).toEqual({
    $ref: '#/components/schemas/FailureInfo',
    description: 'The newest failure.',
  });
  expect(schemas.FailureInfo?.description).toBe('One failure of a job.');
});

type Place = { at: string; text: string | undefined };

/** What Fastify writes where a route says nothing is no description. */
const isSentence = (text: string | undefined): boolean => text !== undefined && /\w/.test(text) && text !== 'Default Response';

function* placesOf(document: Document): Generator<Place> {
  const { schemas } = document.components;
  for (const [name, schema] of Object.entries(schemas)) {
    yield { at: name, text: schema.description };
    yield* membersOf(schema, name, schemas);
  }
  for (const [path, methods] of [...Object.entries(document.paths), ...Object.entries(document.webhooks)]) {
    for (const [method, operation] of Object.entries(methods)) yield* partsOf(operation, `${method} ${path}`, schemas);
  }
}

function* partsOf(operation: Operation, at: string, schemas: Document['components']['schemas']): Generator<Place> {
  yield { at: `${at}, summary`, text: operation.summary };
  yield { at, text: operation.description };
  for (const { name, in: where, description, schema } of operation.parameters ?? []) {
    yield { at: `${at}, ${where} ${name}`, text: description };
    yield* membersOf(schema, `${at}, ${name}`, schemas);
  }
  for (const { schema = {} } of Object.values(operation.requestBody?.content ?? {})) yield* membersOf(schema, `${at}, body`, schemas);
  for (const [status, { description, headers = {}, content = {} }] of Object.entries(operation.responses)) {
    yield { at: `${at}, ${status}`, text: description };
    for (const [name, header] of Object.entries(headers)) {
      yield { at: `${at}, ${status}, header ${name}`, text: header.description ?? header.schema?.description };
    }
    for (const { schema = {} } of Object.values(content)) yield* membersOf(schema, `${at}, ${status}`, schemas);
  }
}

/** Every member below a schema. Members of the shapes that it refers to are listed with those. */
function* membersOf(schema: Schema, at: string, schemas: Document['components']['schemas']): Generator<Place> {
  for (const [name, member] of Object.entries(schema.properties ?? {})) {
    yield { at: `${at}.${name}`, text: meaningOf(member, schemas) };
    yield* membersOf(member, `${at}.${name}`, schemas);
  }
  const { items, additionalProperties: values, anyOf = [], oneOf = [], allOf = [] } = schema;
  for (const part of [...anyOf, ...oneOf, ...allOf, ...(items === undefined ? [] : [items])]) yield* membersOf(part, at, schemas);
  if (typeof values === 'object') yield* membersOf(values, at, schemas);
}

/** The description of a member, of an alternative of it, or of the shape that it refers to. */
function meaningOf(member: Schema, schemas: Document['components']['schemas']): string | undefined {
  const shape = member.$ref === undefined ? undefined : schemas[member.$ref.replace('#/components/schemas/', '')];
  const alternatives = [...(member.anyOf ?? []), ...(member.oneOf ?? [])];
  return member.description ?? shape?.description ?? alternatives.find(({ description }) => description !== undefined)?.description;
}
