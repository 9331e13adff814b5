import { Type } from 'typebox';
import { CAPABILITIES, CATEGORY_NAMES } from '../../../core/governance/categories.ts';
import { duration, named, shape, textOrNull, word } from './shapes.ts';

export const JobCategory = shape(
  'JobCategory',
  {
    name: word(CATEGORY_NAMES, 'The member `category` of a submission.'),
    queue: Type.String({ description: 'Where its jobs wait, unless the submission names a queue.' }),
    max_attempts: Type.Integer({ description: 'Unless the submission or the handler says otherwise.' }),
    base_delay: duration('The wait before the first retry. It doubles with each retry, and a random part is always added.'),
    max_delay: duration('The longest wait before a retry.'),
    key_window: duration('How long a repeated submission returns the first job.'),
    scheduling_allowed: Type.Boolean({ description: 'Whether a submission may ask for a later start.' }),
    required_members: Type.Array(Type.String(), { description: 'Members that the payload must have.' }),
    capabilities: Type.Array(word(CAPABILITIES), { description: 'What handlers of its jobs may do through their context.' }),
  },
  {
    description: 'The rules of one category of governed jobs.',
    examples: [
      {
        name: 'notification',
        queue: 'q:notifications',
        max_attempts: 10,
        base_delay: 'PT5S',
        max_delay: 'PT30M',
        key_window: 'P7D',
        scheduling_allowed: true,
        required_members: ['recipient', 'template'],
        capabilities: ['audit', 'jobs'],
      },
    ],
  },
);

export const JobCategories = shape(
  'JobCategories',
  {
    items: Type.Array(named(JobCategory), { description: 'The five categories.' }),
    next_cursor: textOrNull('Always null: all categories are on one page.'),
  },
  { description: 'The categories of governed jobs.' },
);
