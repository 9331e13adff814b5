import type { Queryable } from '../../ledger/driver/statement.ts';
import { postponeLanes, takeHostTokens } from '../../ledger/webhooks/host-tokens.ts';
import type { LockedLane } from '../../ledger/webhooks/ready-lanes.ts';

/**
 * Returns the lanes whose host may be called now, and makes the others due later. The rate applies to a host over all orgs. Orgs take
 * turns, so an org with many lanes delays its own. Call it in the transaction that locked the lanes.
 */
export async function admitByHost(client: Queryable, lanes: readonly LockedLane[], perSecond: number): Promise<LockedLane[]> {
  const byHost = Map.groupBy(lanes, ({ url }) => hostOf(url));
  const demands = [...byHost].map(([host, ofHost]) => ({ host, wanted: ofHost.length }));
  const granted = await takeHostTokens(client, demands, perSecond);
  const admitted: LockedLane[] = [];
  const postponed: { webhookId: string; delayMs: number }[] = [];
  for (const [host, ofHost] of byHost) {
    const tokens = granted.get(host) ?? 0;
    for (const [index, { lane, place, orgs }] of turnsOf(ofHost).entries()) {
      if (index < tokens) admitted.push(lane);
      else postponed.push({ webhookId: lane.webhookId, delayMs: (1_000 / perSecond) * orgs * place });
    }
  }
  if (postponed.length > 0) await postponeLanes(client, postponed);
  return admitted;
}

/** A final dot leads to the same host. */
const hostOf = (url: string): string => new URL(url).hostname.replace(/\.$/, '');

type Turn = { lane: LockedLane; place: number; orgs: number };

/** The first lane of every org, then the second, and so on. `place` counts the lanes of an org from one. */
function turnsOf(lanes: readonly LockedLane[]): Turn[] {
  const ofOrgs = [...Map.groupBy(lanes, ({ orgId }) => orgId).values()];
  const turns = ofOrgs.flatMap((ofOrg) => ofOrg.map((lane, index) => ({ lane, place: index + 1, orgs: ofOrgs.length })));
  return turns.sort((one, other) => one.place - other.place);
}
