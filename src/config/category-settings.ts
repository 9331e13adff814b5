import { MAX_ATTEMPTS } from '../core/policy.ts';
import { duration, integer, LIST, type Setting, setting, TEXT } from './setting.ts';

/** The settings of one category, `[categories.notification]`. */
export const CATEGORY_SETTINGS = {
  queue: setting(TEXT, null, 'the queue of its jobs, unless the submission names one'),
  max_attempts: setting(integer(1, MAX_ATTEMPTS), null, 'how many attempts a job has, unless its submission or its handler says otherwise'),
  base_delay: setting(duration(), null, 'the wait before the first retry; it doubles with each retry'),
  max_delay: setting(duration(), null, 'the longest wait before a retry'),
  key_window: setting(duration(), null, 'how long a repeated submission returns the first job'),
  poison_after: setting(
    integer(2, MAX_ATTEMPTS),
    null,
    'a job that fails permanently so many times, each time after a manual retry, is dead-lettered as poison',
  ),
  assignment_grants: setting(LIST, null, 'only for `planning`: the job types whose handlers may write assignments'),
} as const satisfies Record<string, Setting>;
