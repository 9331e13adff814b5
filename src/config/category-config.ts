import type { Issue } from '../core/errors.ts';
import { CATEGORY_NAMES, type CategoryName } from '../core/governance/categories.ts';
import { type Categories, type Category, type CategoryChanges, categoryOf } from '../core/governance/category.ts';
import { Issues } from '../core/issues.ts';
import { readQueue } from '../core/submission-fields.ts';
import { type Assembly, invalidConfig } from './assemble.ts';
import type { CATEGORY_SETTINGS } from './category-settings.ts';

/** The five categories with the changes of the file. */
export function categoryConfig(assembly: Assembly): Categories {
  const issues: Issue[] = [];
  const categories = CATEGORY_NAMES.map((name): [CategoryName, Category] => {
    const category = categoryOf(name, changesOf(assembly, name));
    issues.push(...problemsOf(category));
    return [name, category];
  });
  if (issues.length > 0) throw invalidConfig(issues);
  return new Map(categories);
}

function changesOf({ entries }: Assembly, name: CategoryName): CategoryChanges {
  const own = <T>(key: keyof typeof CATEGORY_SETTINGS): T | undefined =>
    (entries.get(`categories."${name}".${key}`)?.value as T | null | undefined) ?? undefined;
  return {
    queue: own<string>('queue'),
    maxAttempts: own<number>('max_attempts'),
    baseDelayMs: own<number>('base_delay'),
    maxDelayMs: own<number>('max_delay'),
    keyWindowMs: own<number>('key_window'),
    poisonAfter: own<number>('poison_after'),
    assignmentGrants: own<readonly string[]>('assignment_grants'),
  };
}

/** Names of values that do not fit together, in the words of the file. */
function problemsOf({ name, queue, baseDelayMs, maxDelayMs, assignmentGrants }: Category): Issue[] {
  const section = `categories.${name}`;
  const issues = new Issues();
  const refused = new Issues();
  readQueue(queue, undefined, refused);
  for (const { code, message } of refused.list) issues.add(`${section}.queue`, code, message.replace(/^queue /, ''));
  if (maxDelayMs < baseDelayMs) issues.add(`${section}.max_delay`, 'INVALID_VALUE', `must not be less than ${section}.base_delay`);
  if (name !== 'planning' && assignmentGrants.length > 0) {
    issues.add(
      `${section}.assignment_grants`,
      'INVALID_VALUE',
      'can be set for planning only: jobs of other categories write no assignments',
    );
  }
  return [...issues.list];
}
