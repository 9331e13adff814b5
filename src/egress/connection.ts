import type { Socket } from 'node:net';
import type { SecureContext } from 'node:tls';
import type { TargetUrl } from '../core/target-url.ts';
import { openConnectTunnel } from './connect-tunnel.ts';
import { within } from './deadline.ts';
import { type Candidate, dial, secure } from './dial.ts';
import { EgressFault, faultFrom } from './fault.ts';
import type { ProxyAddress } from './proxy-address.ts';
import { openSocks5 } from './socks5.ts';

export type Dialled = { readonly address: string; readonly port: number; readonly via: 'direct' | 'http' | 'socks5' };

/** The proxy with its addresses, looked up before. */
export type ProxyRoute = { readonly proxy: ProxyAddress; readonly addresses: readonly Candidate[] };

export type ConnectionParams = {
  readonly target: TargetUrl;
  readonly candidates: readonly Candidate[];
  readonly route: ProxyRoute | null;
  readonly connectTimeoutMs: number;
  readonly secureContext: SecureContext;
  readonly signal: AbortSignal;
  readonly onDial: ((dialled: Dialled) => void) | undefined;
};

export type Connection = { readonly socket: Socket; readonly candidate: Candidate };

/** A socket to one of the checked addresses, encrypted when the URL asks for it. */
export async function connectTo(params: ConnectionParams): Promise<Connection> {
  const connection = await tryInTurn(params);
  const { target, connectTimeoutMs: ms, secureContext: context, signal } = params;
  if (!target.isSecure) return connection;
  const { host, literal } = target;
  const fault = new EgressFault('TLS', `${host} did not finish the TLS handshake within ${ms} ms`);
  const { socket, candidate } = connection;
  try {
    const isLiteral = literal !== null;
    const tls = await within({ ms, signal, fault }, (phase) =>
      secure({ socket, host, isLiteral, context, signal: phase }),
    );
    return { socket: tls, candidate };
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

/** All attempts share one time; each gets an equal part of what is left, so that a silent address leaves some to the next. */
async function tryInTurn(params: ConnectionParams): Promise<Connection> {
  const endsAt = performance.now() + params.connectTimeoutMs;
  let last = new EgressFault('CONNECT', 'there is no address to connect to');
  for (const [index, candidate] of params.candidates.entries()) {
    const ms = Math.max(1, (endsAt - performance.now()) / (params.candidates.length - index));
    const code = params.route === null ? 'CONNECT' : 'PROXY';
    const fault = new EgressFault(code, `${candidate.text} did not answer within ${Math.round(ms)} ms`);
    try {
      const { signal } = params;
      return { candidate, socket: await within({ ms, signal, fault }, (phase) => reach(candidate, params, phase)) };
    } catch (error) {
      params.signal.throwIfAborted();
      last = faultFrom(error, code);
    }
  }
  throw last;
}

async function reach(candidate: Candidate, params: ConnectionParams, signal: AbortSignal): Promise<Socket> {
  const { route, target, onDial } = params;
  const { port } = target;
  if (route !== null) return reachThrough(route, { candidate, port, signal, onDial });
  onDial?.({ address: candidate.text, port, via: 'direct' });
  return dial({ to: candidate, port, signal });
}

type Passage = Pick<ConnectionParams, 'onDial' | 'signal'> & { readonly candidate: Candidate; readonly port: number };

async function reachThrough(route: ProxyRoute, passage: Passage): Promise<Socket> {
  const { proxy } = route;
  const { candidate: to, port, signal } = passage;
  const socket = await dialProxy(route, passage);
  await (proxy.kind === 'http' ? openConnectTunnel : openSocks5)({ socket, proxy, to, port, signal });
  return socket;
}

async function dialProxy({ proxy, addresses }: ProxyRoute, { onDial, signal }: Passage): Promise<Socket> {
  let last: unknown;
  for (const to of addresses) {
    onDial?.({ address: to.text, port: proxy.port, via: proxy.kind });
    try {
      return await dial({ to, port: proxy.port, signal });
    } catch (error) {
      signal.throwIfAborted();
      last = error;
    }
  }
  throw new EgressFault('PROXY', `the proxy was not reached: ${last instanceof Error ? last.message : 'no address'}`);
}
