/** Finds what users of the package can name, and of that what has no comment. */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parseAst } from 'rolldown/parseAst';

type Node = { type: string; start: number; end: number } & Record<string, unknown>;
type Parsed = { file: string; text: string; body: Node[] };

/** Returns "file: name" for each export and each member of one that has no comment. Names in `without` are files to leave out. */
export function findUndocumented(entries: readonly string[], without: readonly string[]): string[] {
  const exported = entries.flatMap((entry) => exportsOf(entry)).filter(({ from }) => !without.some((name) => from.file.endsWith(name)));
  return [...new Set(exported.flatMap(undocumentedIn))].sort();
}

type Exported = { from: Parsed; name: string; statement: Node };

function parse(file: string): Parsed {
  const text = readFileSync(file, 'utf8');
  return { file, text, body: parseAst(text, { lang: 'dts' }).body as unknown as Node[] };
}

/** The declarations that a file exports, also those that it takes from others; with `only`, those of these names. */
function exportsOf(file: string, only?: ReadonlySet<string>): Exported[] {
  const from = parse(file);
  return from.body.flatMap((statement) => {
    const source = statement.source as { value: string } | null | undefined;
    if (source?.value.startsWith('.')) {
      const other = join(dirname(file), source.value.replace(/\.js$/, '.d.ts'));
      if (statement.type === 'ExportAllDeclaration') return exportsOf(other, only);
      if (statement.type !== 'ExportNamedDeclaration') return [];
      const names = (statement.specifiers as { local: { name: string }; exported: { name: string } }[])
        .filter(({ exported }) => only === undefined || only.has(exported.name))
        .map(({ local }) => local.name);
      return names.length === 0 ? [] : exportsOf(other, new Set(names));
    }
    const name = nameOf(statement.declaration as Node | null);
    return name !== null && (only === undefined || only.has(name)) ? [{ from, name, statement }] : [];
  });
}

function nameOf(declaration: Node | null | undefined): string | null {
  const [variable] = (declaration?.declarations ?? []) as Node[];
  const { id } = (variable ?? declaration ?? {}) as { id?: { name: string } };
  return id?.name ?? null;
}

function undocumentedIn({ from, name, statement }: Exported): string[] {
  const members = [...membersBelow(statement)].map((member): [string, Node] => [`${name}.${keyOf(member)}`, member]);
  const all: [string, Node][] = [[name, statement], ...members];
  return all.filter(([, node]) => !hasComment(from.text, node)).map(([path]) => `${from.file.replace(/^.*\/dist\//, '')}: ${path}`);
}

const MEMBERS = new Set([
  'TSPropertySignature',
  'TSMethodSignature',
  'PropertyDefinition',
  'TSAbstractMethodDefinition',
  'MethodDefinition',
]);

function* membersBelow(node: Node): Generator<Node> {
  for (const [key, value] of Object.entries(node)) {
    if (key === 'typeParameters' || key === 'typeArguments' || key === 'superClass' || key === 'params') continue;
    for (const child of (Array.isArray(value) ? value : [value]) as (Node | null)[]) {
      if (typeof child !== 'object' || child === null || typeof child.type !== 'string') continue;
      if (MEMBERS.has(child.type)) {
        if (isPublic(child)) yield child;
        // Inline objects of a member belong to the comment of that member.
      } else if (child.type !== 'TSFunctionType') yield* membersBelow(child);
    }
  }
}

const isPublic = (member: Node): boolean =>
  member.accessibility !== 'private' && member.computed !== true && !/^(?:constructor|name|private)$/.test(keyOf(member));

function keyOf({ key }: Node): string {
  const { name, value } = key as { name?: string; value?: string };
  return name ?? value ?? '[computed]';
}

const hasComment = (text: string, { start }: Node): boolean => text.slice(0, start).trimEnd().endsWith('*/');
