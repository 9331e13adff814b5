import { describeCategories } from '../../services/jobs/describe-categories.ts';
import { defineCommand, EXIT, type Invocation } from '../command.ts';
import { settingsOf } from '../connection.ts';
import { textTable } from '../text-table.ts';

export const categories = defineCommand({
  name: 'categories',
  summary: 'show the categories of governed jobs: their queues, retries and rules',
  details: 'A section [categories.NAME] of the configuration changes a category.',
  examples: ['millrace categories', 'millrace categories --json'],
  run,
});

const HEAD = ['category', 'queue', 'attempts', 'base delay', 'max delay', 'key window', 'start later', 'payload needs', 'may use'];

async function run({ values, out }: Invocation): Promise<number> {
  const items = describeCategories(settingsOf(values).config.categories);
  const rows = items.map((item) => [
    item.name,
    item.queue,
    String(item.max_attempts),
    item.base_delay,
    item.max_delay,
    item.key_window,
    item.scheduling_allowed ? 'yes' : 'no',
    item.required_members.join(', '),
    item.capabilities.join(', '),
  ]);
  out.answer({ items }, () => textTable(HEAD, rows));
  return EXIT.ok;
}
