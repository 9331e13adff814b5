/** Every page that teaches runs from top to bottom: its commands against a server, its programs in an empty project. */
import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, onTestFinished, test } from 'vitest';
import { migratedDatabase } from '../ledger/test-database.ts';
import { blocksOf, ROOT } from './blocks.ts';
import { Reader } from './reader.ts';

const guides = readdirSync(new URL('docs/guides/', ROOT)).map((file) => `docs/guides/${file}`);
const PAGES = ['README.md', ...guides];

const readPage = (page: string): string => readFileSync(new URL(page, ROOT), 'utf8');

describe('the commands and programs of the page run from top to bottom', () => {
  test.for(PAGES)('%s', async (page) => {
    const database = await migratedDatabase();
    onTestFinished(database.drop);
    const reader = new Reader({ database: database.url });
    if (readPage(page).includes('127.0.0.1:8484')) await reader.startServer();
    for (const block of blocksOf(page)) {
      const ended = await reader.follow(block);
      if (ended !== null) expect({ ...ended, place: block.place }).toMatchObject({ place: block.place, code: 0 });
    }
    expect(await reader.stop()).toEqual([]);
  });
});

test('these blocks do not run, and these run until they are stopped', () => {
  const blocks = PAGES.flatMap((page) => blocksOf(page).map((block) => ({ page, ...block })));
  expect(blocks.flatMap(({ page, how }) => (how.kind === 'not run' ? [`${page}: ${how.reason}`] : []))).toEqual([
    'README.md: test/cli/stop.test.ts runs npm start',
    'README.md: test/cli/simulate.test.ts runs the simulator',
    'docs/guides/dead-letters.md: it needs a key and the id of a job',
    'docs/guides/dead-letters.md: it needs a job that died',
    'docs/guides/getting-started.md: test/package/packed.test.ts packs and installs the package',
    'docs/guides/simulator.md: test/cli/simulate.test.ts runs the simulator',
    'docs/guides/webhooks.md: the server calls a public address',
  ]);
  expect(blocks.flatMap(({ page, how }) => (how.kind === 'until stopped' ? [`${page}: ${how.prints}`] : []))).toEqual([
    'docs/guides/dead-letters.md: Millrace is up.',
    'docs/guides/getting-started.md: Millrace is up.',
    'docs/guides/ingest.md: listening',
    'docs/guides/ingest.md: Millrace is up.',
    'docs/guides/live-events.md: ',
    'docs/guides/live-events.md: ',
    'docs/guides/live-events.md: ',
    'docs/guides/running-workers.md: mailer-1 is running',
    'docs/guides/webhooks.md: listening',
  ]);
});
