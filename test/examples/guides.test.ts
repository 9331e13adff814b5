import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));

type Page = { name: string; path: string; text: string };
type Block = { file: string; code: string };

let folder = '';
let pages: Page[] = [];

beforeAll(async () => {
  // Below the project, so that packages are found, where git, the linter and the compiler do not look.
  const cache = join(ROOT, 'node_modules', '.cache');
  await mkdir(cache, { recursive: true });
  folder = await mkdtemp(join(cache, 'millrace-guides-'));
  pages = await readPages();
});
afterAll(() => rm(folder, { recursive: true, force: true }));

test('every TypeScript block of the guides and the README compiles against the library', async () => {
  const blocks = pages.flatMap(blocksOf);
  expect(blocks.length).toBeGreaterThan(20);
  await Promise.all(blocks.map(({ file, code }) => writeFile(join(folder, file), code)));
  await writeFile(join(folder, 'package.json'), '{ "type": "module" }');
  await writeFile(join(folder, 'tsconfig.json'), JSON.stringify(configFor(blocks)));
  expect(await compile()).toBe('');
});

test('the guide to handlers shows the three patterns against running twice [GM-7.09] [GM-7.10] [GM-7.11]', () => {
  const code = blocksOf(pageNamed('writing-handlers')).map((block) => block.code);
  expect(code.some((text) => /INSERT INTO processed.*ON CONFLICT DO NOTHING[\s\S]*context\.jobId/.test(text))).toBe(true);
  expect(code.some((text) => /pg_advisory_xact_lock[\s\S]*context\.idempotencyKey/.test(text))).toBe(true);
  expect(code.some((text) => /version = version \+ 1 WHERE .* version = \$3/.test(text))).toBe(true);
});

test('every member of a handler’s context is explained in the guide', async () => {
  const source = await readFile(join(ROOT, 'src/engine/work/job-context.ts'), 'utf8');
  const body = source.slice(source.indexOf('export type JobContext'));
  const members = [...body.matchAll(/^ {2}(?:readonly )?(\w+)[(:<]/gm)].map((match) => match[1]);
  expect(members.length).toBeGreaterThan(15);
  const { text } = pageNamed('writing-handlers');
  expect(members.filter((member) => !new RegExp(`\`${member}[\`(]`).test(text))).toEqual([]);
});

test('every link of the guides and the list of examples leads somewhere', async () => {
  const dead: string[] = [];
  for (const { name, path, text } of pages.filter((page) => page.name !== 'README')) {
    for (const [, target = ''] of text.matchAll(/\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)/g)) {
      await readFile(join(path, '..', target)).catch((error: { code?: string }) => {
        if (error.code !== 'EISDIR') dead.push(`${name}: ${target}`);
      });
    }
  }
  expect(dead).toEqual([]);
});

async function readPages(): Promise<Page[]> {
  const guides = join(ROOT, 'docs', 'guides');
  const paths = (await readdir(guides)).filter((file) => file.endsWith('.md')).map((file) => join(guides, file));
  const all = [...paths, join(ROOT, 'examples', 'README.md'), join(ROOT, 'README.md')];
  return Promise.all(
    all.map(async (path) => ({
      name: path.slice(ROOT.length).replace(/\.md$/, '').replaceAll(/[/\\]/g, '-'),
      path,
      text: await readFile(path, 'utf8'),
    })),
  );
}

function pageNamed(name: string): Page {
  const page = pages.find((each) => each.name === `docs-guides-${name}`);
  if (page === undefined) throw new Error(`There is no guide named ${name}.`);
  return page;
}

/** Named by page and line, so that the compiler's complaint says where to look. */
function blocksOf({ name, text }: Page): Block[] {
  return [...text.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map((match) => {
    const line = text.slice(0, match.index).split('\n').length;
    return { file: `${name}-line-${line}.ts`, code: match[1] ?? '' };
  });
}

function configFor(blocks: readonly Block[]) {
  return {
    extends: join(ROOT, 'tsconfig.json'),
    compilerOptions: {
      moduleDetection: 'force',
      noUnusedLocals: false,
      noUnusedParameters: false,
      paths: {
        millrace: [join(ROOT, 'src/index.ts')],
        'millrace/testing': [join(ROOT, 'src/testing/index.ts')],
        'millrace/client': [join(ROOT, 'src/client/index.ts')],
      },
    },
    include: [],
    files: blocks.map(({ file }) => file),
  };
}

/** What the compiler says about the blocks; the sources behind them are checked with the project. */
function compile(): Promise<string> {
  const tsc = join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
  return new Promise((resolve) => {
    execFile(process.execPath, [tsc, '--noEmit', '--pretty', 'false', '-p', folder], { cwd: folder }, (_error, stdout, stderr) => {
      const complaints = stdout.split('\n').filter((line) => line.includes('-line-') || /^error/.test(line));
      resolve([...complaints, stderr].join('\n').trim());
    });
  });
}
