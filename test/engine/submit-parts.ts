/** What writes jobs, without an engine: nothing is announced, and no worker of this process is idle. */
import { categoriesWith, governanceOf } from '../../src/core/governance/category.ts';
import { type Policy, PROFILES } from '../../src/core/policy.ts';
import { DEFAULT_LIMITS } from '../../src/core/submission.ts';
import type { RegistrationPolicy } from '../../src/core/submission-policy.ts';
import { JobWriter } from '../../src/engine/submit/job-writer.ts';
import { Submitter } from '../../src/engine/submit/submitter.ts';
import { ProjectCache } from '../../src/ledger/access/projects.ts';
import { LimitCache } from '../../src/ledger/jobs/intern-limits.ts';
import { CallbackOrgs } from '../../src/ledger/webhooks/callback-orgs.ts';
import type { Intake } from '../../src/services/jobs/prepare-submission.ts';
import type { TestLedger } from '../ledger/fixture.ts';

type Registrations = (type: string) => RegistrationPolicy | undefined;

/** `patienceMs`: how long a submission waits for a lock, if not as long as in the product. */
type Options = { registrationOf?: Registrations; patienceMs?: number };

export function submitParts(ledger: TestLedger, { registrationOf = () => undefined, patienceMs }: Options = {}) {
  const { db: database, policies } = ledger;
  const writer = new JobWriter({ database, onAccepted: () => {}, patienceMs });
  const submitter = new Submitter({
    database,
    writer,
    producers: { claimWith: () => null },
    hasSpareSession: () => true,
    hintReady: () => {},
    onAccepted: () => {},
  });
  const intake: Intake = {
    profile: PROFILES.gopherqueue as Policy,
    limits: DEFAULT_LIMITS,
    policies,
    callbackOrgs: new CallbackOrgs(database.api),
    jobLimits: new LimitCache(database.api),
    projects: new ProjectCache(database.api),
    catalogue: {
      queueNames: { has: () => true, list: () => [] },
      limitOf: () => undefined,
      ensureQueue: async () => {},
      learnType: async () => {},
    },
    governance: governanceOf(categoriesWith(), PROFILES.gopherqueue),
    registrationOf,
    knowsType: () => true,
  };
  return { writer, submitter, intake };
}
