import { formatDuration } from '../../core/duration.ts';
import { capabilitiesOf } from '../../core/governance/categories.ts';
import type { Categories } from '../../core/governance/category.ts';

/** The categories with the member names of the HTTP API, which the CLI prints too. Durations are ISO 8601. */
export const describeCategories = (categories: Categories) =>
  [...categories.values()].map((category) => ({
    name: category.name,
    queue: category.queue,
    max_attempts: category.maxAttempts,
    base_delay: formatDuration(category.baseDelayMs),
    max_delay: formatDuration(category.maxDelayMs),
    key_window: formatDuration(category.keyWindowMs),
    scheduling_allowed: category.allowsScheduling,
    required_members: [...category.requiredMembers],
    capabilities: [...capabilitiesOf(category.name)],
  }));
