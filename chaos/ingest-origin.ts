/** The servers of chaos/ingest-mix.ts, and what each kind of resource must end as. */
import { answerWith, type Origin, openOrigin, type Script } from '../test/egress/origin.ts';
import { bodyOf, serveResources, sha256 } from '../test/handlers/fetch-origin.ts';

const MIB = 1_048_576;
/** Larger than the largest good resource, and smaller than what bad servers announce. */
export const MAX_MIB = 52;
const DRIP_EVERY_MS = 30;

/** `stored`: the sha256 of the object. Otherwise the code of the error. */
type End = { readonly stored: string } | { readonly failed: string };

export type Resource = { readonly id: string; readonly url: string; readonly tags: Readonly<Record<string, string>>; readonly end: End };

type Kind = {
  readonly path: string;
  readonly share: number;
  readonly end: End;
  readonly hint?: string;
  /** Throttled answers pause the whole server for a moment, so they have one of their own. */
  readonly isThrottling?: boolean;
};

const stored = (path: string): End => ({ stored: sha256(bodyOf(path)) });
const failed = (code: string): End => ({ failed: code });
const text = (body: string): End => ({ stored: sha256(body) });

/** The shares add up to 1 000. */
const KINDS: readonly Kind[] = [
  ...[
    [1_024, 200],
    [10_000, 150],
    [100_000, 109],
    [MIB, 40],
    [5 * MIB, 12],
    [50 * MIB, 5],
  ].map(([size, share]) => ({ path: `/size/${size}`, share: share as number, end: stored(`/size/${size}`) })),
  { path: '/chunked/70000', share: 30, end: stored('/chunked/70000') },
  { path: '/hop/0', share: 25, end: stored('/size/77') },
  { path: '/hop/3', share: 25, end: stored('/size/77') },
  { path: '/hop/9', share: 20, end: failed('TOO_MANY_REDIRECTS') },
  { path: '/status/404', share: 50, end: failed('HTTP_404') },
  { path: '/status/403', share: 40, end: failed('HTTP_403') },
  { path: '/status/410', share: 30, end: failed('HTTP_410') },
  { path: '/throttled', share: 20, end: text('after the pause'), isThrottling: true },
  { path: '/throttling', share: 4, end: failed('HTTP_429'), isThrottling: true },
  { path: '/status/500', share: 20, end: failed('HTTP_500') },
  { path: '/flaky', share: 40, end: text('the second time') },
  { path: '/slow/60', share: 40, end: stored('/slow/60') },
  { path: '/cut', share: 20, end: failed('TRUNCATED') },
  { path: '/cut-once', share: 30, end: stored('/cut-once/20000') },
  { path: '/size/64', share: 20, end: stored('/size/64'), hint: sha256(bodyOf('/size/64')) },
  { path: '/size/65', share: 20, end: failed('CHECKSUM_MISMATCH'), hint: '0'.repeat(64) },
  { path: '/longer', share: 20, end: text('four') },
  { path: '/announced', share: 25, end: failed('TOO_LARGE') },
  { path: '/endless', share: 5, end: failed('TOO_LARGE') },
];

/** The resources in an order that the seed decides. */
export function resourcesOf(seed: number, [plain, throttling]: readonly [Origin, Origin]): Resource[] {
  const random = randomFrom(seed);
  const all = KINDS.flatMap((kind) => Array.from({ length: kind.share }, () => kind));
  const order = all.map((kind) => ({ kind, at: random() })).toSorted((one, two) => one.at - two.at);
  return order.map(({ kind: { path, end, hint, isThrottling = false } }, n) => ({
    id: `r${n}`,
    url: `http://127.0.0.1:${(isThrottling ? throttling : plain).port}${path}?n=${n}`,
    tags: Object.fromEntries(hint === undefined ? [] : [['checksum_hint', `sha256:${hint}`]]),
    end,
  }));
}

/** The middle digits of a linear generator. A failing run is repeated with its seed. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return ((state >>> 8) % 65_536) / 65_536;
  };
}

/** Serves what the tests of downloads serve, and resources that are better the second time. */
export async function openOrigins(): Promise<[Origin, Origin]> {
  const seen = new Set<string>();
  const basic = serveResources(() => 0);
  const isFirst = (path: string): boolean => !seen.has(path) && seen.add(path) !== undefined;
  const script: Script = (request, socket) => {
    const [path = ''] = request.path.split('?');
    switch (path) {
      case '/throttled':
        return isFirst(request.path) ? answerWith(429, { 'retry-after': '1' }) : answerWith(200, {}, 'after the pause');
      case '/throttling':
        return answerWith(429, { 'retry-after': '1' });
      case '/flaky':
        return isFirst(request.path) ? answerWith(500) : answerWith(200, {}, 'the second time');
      case '/cut-once': {
        const body = bodyOf('/cut-once/20000');
        const head = `HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n`;
        if (!isFirst(request.path)) return Buffer.concat([Buffer.from(head), body]);
        socket.end(Buffer.concat([Buffer.from(head), body.subarray(0, 9_000)]));
        return null;
      }
      case '/slow/60':
        drip(bodyOf(path), socket);
        return null;
      default:
        return basic({ ...request, path }, socket);
    }
  };
  return [await openOrigin(script), await openOrigin(script)];
}

function drip(body: Buffer, socket: Parameters<Script>[1]): void {
  socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${body.length}\r\n\r\n`);
  let sent = 0;
  const timer = setInterval(() => {
    if (sent === body.length || !socket.writable) clearInterval(timer);
    else socket.write(body.subarray(sent, ++sent));
  }, DRIP_EVERY_MS);
}
